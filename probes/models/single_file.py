"""A checkpoint in its publisher's layout: all weights of a pipeline in one ``.safetensors`` or ``.ckpt``.

Such a file holds no description. Where none stands beside it, the one that belongs to its architecture comes from
``probes/models/descriptions``: the settings that the published models have in diffusers' layout, with CLIP's vocabulary
as open_clip carries it. Nothing is fetched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from hooks.architectures.layout import MisfitError, SingleFile
from hooks.architectures.registry import ARCHITECTURES
from probes.errors import UserError
from probes.models import description
from probes.models.description import INDEX, Source, readable
from probes.models.pretrained import from_single_file, quiet, tensors
from probes.models.source import CARD
from probes.models.tokenizers import tokenizer
from probes.models.weights import modules, pipeline_options
from probes.paths import expand_model

ENDINGS = (".safetensors", ".ckpt")
_ROOT = Path(str(files(__package__) / "descriptions"))
# the published files of SD 2.x: 512-base-ema, v2-1_512-ema-pruned; 768-v-ema, v2-1_768-ema-pruned
_BY_NAME = {"512": "epsilon", "768": "v_prediction"}
_CALLBACKS = ("pytorch_lightning.", "lightning.")  # what training left in .ckpt files beside the weights


def source(name: str, path: Path) -> Source:
    """The model that a single file is, with the description beside it or the shipped one.

    A description is a diffusers folder without weights: the file's name without its ending, or the file's folder.
    """
    bare = Source(name, "file", path, path.parent)
    expand_model(path.with_suffix(""), "model")
    shapes = _shapes(bare)
    if shapes and all("lora" in key.lower() for key in shapes):
        raise lora_error(name)
    found = _recognised(bare, shapes)
    beside = next((at for at in (path.with_suffix(""), path.parent) if (at / INDEX).exists()), None)
    if beside is None:
        return Source(name, "file", path, _shipped(bare, found))
    result = Source(name, "file", path, beside)
    if description.read_index(result)["_class_name"] != found.pipeline:
        raise UserError(
            f"model {name}: expected the description of a {found.pipeline} in {beside / INDEX}, got another: put the"
            " file beside the description that belongs to it"
        )
    return result


def lora_error(name: str) -> UserError:
    """Return the error for a LoRA in the place of a model."""
    return UserError(
        f"model {name}: expected a whole model, got a LoRA, which changes one: put it into its model with diffusers"
        " (pipe.load_lora_weights, pipe.fuse_lora, pipe.unload_lora_weights, pipe.save_pretrained) and give that folder"
    )


def published() -> list[Source]:
    """The descriptions that the package ships, of published architectures at their sizes; they have no weights."""
    folders = sorted(folder for folder in _ROOT.iterdir() if (folder / INDEX).exists())
    return [Source(folder.name, "folder", folder, folder) for folder in folders]


def _recognised(bare: Source, shapes: Mapping[str, tuple[int, ...]]) -> SingleFile:
    """Return what a file is to the first architecture that knows it."""
    refusals: list[MisfitError] = []
    for architecture in ARCHITECTURES:
        try:
            found = architecture.single_file(shapes)
        except MisfitError as error:
            refusals.append(error)
        else:
            if found is not None:
                return found
    error = refusals[0]
    raise description.fault(bare, bare.path.name, error.expected, error.got, error.remedy)


def _shipped(bare: Source, found: SingleFile) -> Path:
    """The folder of ``probes/models/descriptions`` for a file of a published architecture."""
    if not found.published:
        raise description.fault(
            bare,
            bare.path.name,
            found.expected,
            f"{found.width or 'none'}",
            f"put its description ({INDEX}, configurations, tokenizers) into {bare.path.with_suffix('')}",
        )
    several = len(found.published) > 1
    return _ROOT / found.published[_prediction(bare, found) if several else next(iter(found.published))]


def _prediction(bare: Source, found: SingleFile) -> str:
    """Return what a file of SD 2.x predicts: its weights do not say, its name or the card beside it must."""
    prediction = description.read_card(bare).get("prediction_type")
    named = {kind for size, kind in _BY_NAME.items() if size in bare.path.stem}
    prediction = prediction or (named.pop() if len(named) == 1 else None)
    if prediction not in found.published:
        raise UserError(
            f"model {bare.name}: expected 512 (which predicts the noise) or 768 (the velocity) in the name of a file of"
            f' SD 2.x, whose weights do not say, got {bare.path.name}: write {{"prediction_type": "epsilon"}} or'
            f' "v_prediction" into {CARD} beside it'
        )
    return prediction


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
    """The pipeline of a single file, in the precision it is stored in."""
    index, (_, layout) = description.read_index(model), description.read_kind(model)
    options = {"config": str(model.config), **pipeline_options(index)}
    options |= {one.name: tokenizer(model, one) for one in layout.tokenizers}
    expected = f"a whole {layout.pipeline}"
    with readable(model, model.path.name, expected), quiet(), _lightning_left_out(model.path):
        pipe = from_single_file(layout.pipeline_class(), model.path, **options)
    _require_whole(model, pipe)
    return pipe


def _require_whole(model: Source, pipe: Any) -> None:
    """Refuse a pipeline of which weights are missing: diffusers leaves them without numbers."""
    for name, module in modules(pipe).items():
        empty = [key for key, value in module.named_parameters() if value.is_meta]
        if empty:
            expected, got = f"the whole weights of {name}", f"{len(empty)} missing ({empty[0]:.80})"
            raise description.fault(model, model.path.name, expected, got, "download it again")
