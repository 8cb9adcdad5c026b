"""A checkpoint in its publisher's layout: all weights of a Stable Diffusion in one ``.safetensors`` or ``.ckpt``.

Such a file holds no description. Where none stands beside it, the one that belongs to its architecture comes from
``probes/models/descriptions``: the settings that the published models have in diffusers' layout, with CLIP's vocabulary
as open_clip carries it. Nothing is fetched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.models.pretrained import from_single_file, quiet, read_tensors
from probes.models.source import CARD, IMAGE_READERS, INDEX, Source
from probes.models.weights import weighted_networks
from probes.paths import expand_model

ENDINGS = (".safetensors", ".ckpt")
DESCRIPTIONS = Path(str(files(__package__) / "descriptions"))
_PIPELINE, _XL = "StableDiffusionPipeline", "StableDiffusionXLPipeline"
# how the tensors of each member begin in a whole checkpoint, and in files of their own
_UNET, _VAE = "model.diffusion_model.input_blocks.", "first_stage_model."
_TEXT = ("cond_stage_model.", "conditioner.embedders.")
_ALONE = {
    "U-Net": (_UNET, "input_blocks.", "down_blocks.", "unet.down_blocks."),
    "VAE": (_VAE, "encoder.", "decoder.", "vae."),
    "text encoder": _TEXT,
}
# by pipeline and width of the text in cross-attention, what a model of that kind predicts, and its description
_PUBLISHED = {
    (_PIPELINE, 768): {"epsilon": "sd1"},
    (_PIPELINE, 1024): {"epsilon": "sd2-epsilon", "v_prediction": "sd2-v"},
    (_XL, 2048): {"epsilon": "sdxl"},
}
# the published files of SD 2.x: 512-base-ema, v2-1_512-ema-pruned; 768-v-ema, v2-1_768-ema-pruned
_BY_NAME = {"512": "epsilon", "768": "v_prediction"}
_CALLBACKS = ("pytorch_lightning.", "lightning.")  # what training left in .ckpt files beside the weights
_ANOTHER = "choose a text-to-image model of Stable Diffusion 1.x, 2.x or XL"


def find_source(name: str, path: Path) -> Source:
    """Return the `Source` of a single file of weights, with the description beside it or a shipped one.

    A description is a diffusers folder without weights: the file's name without its ending, or the file's folder.
    """
    model = Source(name, "file", path, path.parent)
    expand_model(path.with_suffix(""), "model")
    shapes = _tensor_shapes(model)
    if shapes and all("lora" in key.lower() for key in shapes):
        raise lora_error(name)
    pipeline, width = _recognize_pipeline(model, shapes)
    beside = next((at for at in (path.with_suffix(""), path.parent) if (at / INDEX).exists()), None)
    if beside is None:
        return replace(model, config=DESCRIPTIONS / _shipped_description(model, pipeline, width))
    result = replace(model, config=beside)
    if result.index["_class_name"] != pipeline:
        raise UserError(
            f"model {name}: expected the description of a {pipeline} in {beside / INDEX}, got another: put the"
            " file beside the description that belongs to it"
        )
    return result


def lora_error(name: str) -> UserError:
    """Return the `UserError` for a LoRA given in the place of a whole model."""
    return UserError(
        f"model {name}: expected a whole model, got a LoRA, which changes one: name its model, and this as"
        " `lora: [{path: ...}]`"
    )


def _recognize_pipeline(model: Source, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, int]:
    """Return the pipeline class that a file's tensors belong to, and the text width in its cross-attentions (or 0)."""

    def holds(*prefixes: str) -> bool:
        """Return whether the name of a tensor begins with one of these prefixes."""
        return any(name.startswith(prefixes) for name in shapes)

    file = model.path.name
    if not (holds(_UNET) and holds(_VAE) and holds(*_TEXT)):
        alone = [name for name, prefixes in _ALONE.items() if holds(*prefixes)]
        got = (
            f"only {' and '.join(alone)}" if alone else f"{len(shapes)} tensors such as {[*shapes][:1]!s:.60}"
        )
        expected = "U-Net, VAE and text encoder of Stable Diffusion in one file"
        raise model.file_error(file, expected, got, "give the whole checkpoint or a diffusers folder")
    xl = holds("conditioner.embedders.1.")
    if holds("conditioner.embedders.0.model.") and not xl:
        raise model.file_error(file, f"{_PIPELINE} or {_XL}", "the refiner of XL", _ANOTHER)
    channels = shapes.get("model.diffusion_model.input_blocks.0.0.weight", (0, 4))[1]
    if channels != 4:
        expected, remedy = "4 channels of latents into the U-Net", f"{_ANOTHER}, not one for inpainting"
        raise model.file_error(file, expected, f"{channels}", remedy)
    context = f"{_UNET}{'4' if xl else '1'}.1.transformer_blocks.0.attn2.to_k.weight"
    return _XL if xl else _PIPELINE, shapes.get(context, (0, 0))[-1]


def _shipped_description(model: Source, pipeline: str, width: int) -> str:
    """Return the name in `DESCRIPTIONS` of the settings that fit a pipeline class and text width, or raise an error."""
    published = _PUBLISHED.get((pipeline, width))
    if published is None:
        expected = "the width of SD 1.x (768), 2.x (1024) or XL (2048) in cross-attention"
        remedy = (
            f"put its description ({INDEX}, configurations, tokenizers) into {model.path.with_suffix('')}"
        )
        raise model.file_error(model.path.name, expected, f"{width or 'none'}", remedy)
    if len(published) == 1:
        return next(iter(published.values()))
    # the weights of SD 2.x do not say what they predict: the card beside them or their name must
    named = {predicts for size, predicts in _BY_NAME.items() if size in model.path.stem}
    prediction = model.card.get("prediction_type") or (named.pop() if len(named) == 1 else None)
    if prediction not in published:
        raise UserError(
            f"model {model.name}: expected 512 (which predicts the noise) or 768 (the velocity) in the name of a file"
            f' of SD 2.x, whose weights do not say, got {model.path.name}: write {{"prediction_type": "epsilon"}} or'
            f' "v_prediction" into {CARD} beside it'
        )
    return published[prediction]


def _tensor_shapes(model: Source) -> dict[str, tuple[int, ...]]:
    """Return the tensors' shapes in a local checkpoint (safetensors or pickle), by name, without reading weights."""
    if model.path.suffix == ".safetensors":
        from safetensors import safe_open

        with (
            model.readable(model.path.name, "weights as safetensors"),
            safe_open(model.path, "pt") as weights,
        ):
            return {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118
    import torch

    expected = "weights as safetensors or a pickle of plain tensors"
    with model.readable(model.path.name, expected), _allow_lightning_classes(model.path):
        weights = read_tensors(model.path, map_location="meta")
        while "state_dict" in weights:
            weights = weights["state_dict"]
        return {name: tuple(value.shape) for name, value in weights.items() if torch.is_tensor(value)}


@contextlib.contextmanager
def _allow_lightning_classes(path: Path) -> Iterator[None]:
    """Context manager: let torch load a pickle that names classes of PyTorch Lightning, which become empty ones."""
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    named = [] if path.suffix == ".safetensors" else get_unsafe_globals_in_checkpoint(str(path))
    classes = []
    for module, _, name in (one.rpartition(".") for one in named if one.startswith(_CALLBACKS)):
        members = {"__module__": module, "__qualname__": name, "__init__": lambda self, *args: None}
        classes.append(type(name, (), members))
    with safe_globals(classes):
        yield


def load_pipeline(model: Source) -> Any:
    """Return the diffusers pipeline of a single-file model, in its stored precision; checks that no weight lacks."""
    options: dict[str, Any] = {name: None for name in IMAGE_READERS if name in model.index}
    if "requires_safety_checker" in model.index:
        options["requires_safety_checker"] = False
    options |= {"config": str(model.config), **model.loaded_tokenizers}
    layout, file = model.layout, model.path.name
    with model.readable(file, f"a whole {layout.pipeline}"), quiet(), _allow_lightning_classes(model.path):
        pipe = from_single_file(layout.pipeline_class(), model.path, **options)
    for name, module in weighted_networks(pipe).items():  # diffusers leaves what is missing without numbers
        if empty := [key for key, value in module.named_parameters() if value.is_meta]:
            got = f"{len(empty)} missing ({empty[0]:.80})"
            raise model.file_error(file, f"the whole weights of {name}", got, "download it again")
    return pipe
