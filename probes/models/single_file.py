"""A checkpoint in the original Stable Diffusion layout: all weights of a pipeline in one ``.safetensors`` or ``.ckpt``.

Such a file holds no description. Where none stands beside it, the one that belongs to its architecture comes from
``probes/models/descriptions``: the settings that the published models have in diffusers' layout, with CLIP's vocabulary as
open_clip carries it. Nothing is fetched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.models import description
from probes.models.description import INDEX, PIPELINES, SUPPORTED, Source, readable
from probes.models.pretrained import from_single_file, quiet, tensors
from probes.models.source import CARD
from probes.models.tokenizers import tokenizer
from probes.storage.paths import expand_model

ENDINGS = (".safetensors", ".ckpt")
_ROOT = Path(str(files(__package__) / "descriptions"))
_PREDICTIONS = ("epsilon", "v_prediction")
# the published files of SD 2.x: 512-base-ema, v2-1_512-ema-pruned; 768-v-ema, v2-1_768-ema-pruned
_BY_NAME = {"512": "epsilon", "768": "v_prediction"}
_CONTEXT = "model.diffusion_model.input_blocks.{}.transformer_blocks.0.attn2.to_k.weight"
_CALLBACKS = ("pytorch_lightning.", "lightning.")  # what training left in .ckpt files beside the weights


def source(name: str, path: Path) -> Source:
    """The model that a single file is, with the description beside it or the shipped one.

    Parameters
    ----------
    name
        As ``triplets.yaml`` has it.
    path
        The file. A description is a diffusers folder without weights: the file's name without its ending, or the folder
        that it lies in.

    Raises
    ------
    UserError
        The file is damaged, no whole Stable Diffusion, or of an architecture without a shipped description.
    """
    bare = Source(name, "file", path, path.parent)
    expand_model(path.with_suffix(""), "model")
    shapes = _shapes(bare)
    kind = _kind(bare, shapes)
    beside = next((at for at in (path.with_suffix(""), path.parent) if (at / INDEX).exists()), None)
    if beside is None:
        return Source(name, "file", path, _shipped(bare, kind, shapes))
    result = Source(name, "file", path, beside)
    if description.read_index(result)["_class_name"] != kind:
        raise UserError(
            f"model {name}: expected the description of a {kind} in {beside / INDEX}, got another: put the file beside"
            " the description that belongs to it"
        )
    return result


def _shipped(bare: Source, kind: str, shapes: Mapping[str, tuple[int, ...]]) -> Path:
    """The folder of ``probes/models/descriptions`` for a file of a published architecture."""
    block = "4.1" if kind == PIPELINES[1] else "1.1"
    width = shapes.get(_CONTEXT.format(block), (0, 0))[-1]
    known = {(PIPELINES[0], 768): "sd1", (PIPELINES[0], 1024): "sd2", (PIPELINES[1], 2048): "sdxl"}
    name = known.get((kind, width))
    if name is None:
        raise description.fault(
            bare,
            bare.path.name,
            "the width of SD 1.x (768), 2.x (1024) or XL (2048) in cross-attention",
            f"{width or 'none'}",
            f"put its description ({INDEX}, configurations, tokenizers) into {bare.path.with_suffix('')}",
        )
    if name == "sd2":
        name = "sd2-v" if _prediction(bare) == "v_prediction" else "sd2-epsilon"
    return _ROOT / name


def _prediction(bare: Source) -> str:
    """What a file of SD 2.x predicts: its weights do not say, its name or the card beside it must."""
    said = description.read_card(bare).get("prediction_type")
    named = {kind for size, kind in _BY_NAME.items() if size in bare.path.stem}
    said = said or (named.pop() if len(named) == 1 else None)
    if said not in _PREDICTIONS:
        raise UserError(
            f"model {bare.name}: expected 512 (which predicts the noise) or 768 (the velocity) in the name of a file of"
            f' SD 2.x, whose weights do not say, got {bare.path.name}: write {{"prediction_type": "epsilon"}} or'
            f' "v_prediction" into {CARD} beside it'
        )
    return said


def _shapes(bare: Source) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the file's tensors; no weights are read."""
    if bare.path.suffix == ".safetensors":
        return description.stored_shapes(bare, "")
    import torch

    expected = "weights as safetensors or a pickle of plain tensors"
    with readable(bare, bare.path.name, expected), _lightning_left_out(bare.path):
        weights = tensors(bare.path, map_location="meta")
        while "state_dict" in weights:
            weights = weights["state_dict"]
        return {name: tuple(value.shape) for name, value in weights.items() if torch.is_tensor(value)}


@contextlib.contextmanager
def _lightning_left_out(path: Path) -> Iterator[None]:
    """Let names of classes that training left in a pickle stand for nothing; every other one stays forbidden."""
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    named = [] if path.suffix == ".safetensors" else get_unsafe_globals_in_checkpoint(str(path))
    with safe_globals([_inert(name) for name in named if name.startswith(_CALLBACKS)]):
        yield


def _inert(name: str) -> type:
    """A class of that name without any behaviour: whatever a pickle makes of it is an empty object."""
    module, _, last = name.rpartition(".")
    return type(last, (), {"__module__": module, "__qualname__": last, "__init__": lambda self, *args: None})


def read(model: Source) -> Any:
    """The pipeline of a single file, in the precision it is stored in.

    Raises
    ------
    UserError
        The file is damaged, or does not hold all of the weights that its description asks for.
    """
    import diffusers

    index = description.read_index(model)
    options: dict[str, Any] = {"config": str(model.config)}
    options |= {
        name: None for name in ("safety_checker", "feature_extractor", "image_encoder") if name in index
    }
    options |= {"requires_safety_checker": False} if "requires_safety_checker" in index else {}
    named = [name for name in ("tokenizer", "tokenizer_2") if index.get(name, [None])[0]]
    options |= {name: tokenizer(model, name) for name in named}
    expected = f"a whole {index['_class_name']}"
    with readable(model, model.path.name, expected), quiet(), _lightning_left_out(model.path):
        pipe = from_single_file(getattr(diffusers, index["_class_name"]), model.path, **options)
    _require_whole(model, pipe)
    return pipe


def _require_whole(model: Source, pipe: Any) -> None:
    """Refuse a pipeline of which weights are missing: diffusers leaves them without numbers."""
    from probes.models.components import modules

    for name, module in modules(pipe).items():
        empty = [key for key, value in module.named_parameters() if value.is_meta]
        if empty:
            expected, got = f"the whole weights of {name}", f"{len(empty)} missing ({empty[0]:.80})"
            raise description.fault(model, model.path.name, expected, got, "download it again")


def _kind(bare: Source, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Which pipeline a single file is for, after its tensors' names and the channels that its U-Net takes.

    Raises
    ------
    UserError
        It is not a whole Stable Diffusion in the original layout.
    """

    def holds(*prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in shapes)

    members = {
        "U-Net": holds("model.diffusion_model.input_blocks."),
        "VAE": holds("first_stage_model."),
        "text encoder": holds("cond_stage_model.", "conditioner.embedders."),
    }
    if not all(members.values()):
        inside = [name for name, there in members.items() if there]
        if not inside and holds("input_blocks.", "down_blocks.", "unet.down_blocks."):
            inside = ["U-Net"]
        if not inside and holds("encoder.", "decoder.", "vae."):
            inside = ["VAE"]
        got = (
            f"only {' and '.join(inside)}"
            if inside
            else f"{len(shapes)} tensors such as {[*shapes][:1]!s:.60}"
        )
        raise description.fault(
            bare,
            bare.path.name,
            "U-Net, VAE and text encoder of Stable Diffusion in one file",
            got,
            "give the whole checkpoint or a diffusers folder",
        )
    if holds("conditioner.embedders.0.model.") and not holds("conditioner.embedders.1."):
        raise description.fault(bare, bare.path.name, " or ".join(PIPELINES), "the refiner of XL", SUPPORTED)
    channels = shapes.get("model.diffusion_model.input_blocks.0.0.weight", (0, 4))[1]
    if channels != 4:
        got = f"{channels}"
        raise description.fault(
            bare,
            bare.path.name,
            "4 channels of latents into the U-Net",
            got,
            f"{SUPPORTED}, not one for inpainting",
        )
    return PIPELINES[holds("conditioner.embedders.1.")]
