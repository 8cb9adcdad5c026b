"""Checkpoints of the diffusion transformers, and what of them is stored with the package."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import T5Tokenizer

from lab.train.base.loop import MovingAverage
from lab.train.dit.model import SCHEDULER, TOKENS, new_parts
from lab.train.stages import write_json, write_recipe
from probes.models.pretrained import from_folder
from probes.toyworld import DIT as BASE
from probes.toyworld.pipelines import (
    DELTA,
    DOWN,
    TEACHERS,
    UP,
    build_transformer_pipeline,
    load_transformer_and_t5,
)

HISTORY = "history.txt"  # of the work folder: a line a stage, what was done, for how long
GUIDANCE = 1.0  # the planted frequencies are those of the model without guidance


def checkpoint(work: Path, name: str) -> Path:
    """The file that training of a model goes on from."""
    return work / f"{name}.pt"


def _average(path: Path) -> dict[str, Tensor]:
    return torch.load(path, weights_only=True, map_location="cpu")["average"]


def resume(work: Path, weights: Path, models: Sequence[str]) -> None:
    """Lay out exported models as the stages leave them, to go on from there, without the state of an optimiser.

    ``models`` are those besides the base whose differences are gone on with.
    """
    base = weights / BASE
    work.mkdir(parents=True, exist_ok=True)
    from_folder(T5Tokenizer, base / "tokenizer_3").save_pretrained(work / "tokenizer_3")
    stored = {
        BASE: nn.ModuleDict(load_transformer_and_t5(base)).state_dict(),
        **{name: _learnt(load_file(weights / name / DELTA)) for name in models if name != BASE},
    }
    for name, state in stored.items():
        recipe = json.loads((weights / name / "recipe.json").read_text())
        step = recipe["last_log_line"]["step"]
        torch.save({"weights": state, "average": state, "step": step}, checkpoint(work, name))
    lines = dict.fromkeys(
        line
        for name in stored
        for line in json.loads((weights / name / "recipe.json").read_text())["history"]
    )
    (work / HISTORY).write_text("".join(f"{line}\n" for line in lines))


def _learnt(delta: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The reverse of `delta_of`: names of modules hold no dot."""
    split = {name: name.rsplit(".", 1) for name in delta}
    return {f"{layer.replace('.', '/')}.{half}": delta[name].float() for name, (layer, half) in split.items()}


def averaged_parts(work: Path) -> nn.ModuleDict:
    """Return what `toyworld-dit` is stored as: the average of its weights, rounded to float16, in float32."""
    tokenizer = from_folder(T5Tokenizer, work / "tokenizer_3")
    parts = nn.ModuleDict(new_parts(len(tokenizer)))
    average = MovingAverage(parts, 0.0)
    average.values = _average(checkpoint(work, BASE))
    average.copy_to(parts)
    return parts.half().float().eval()


def delta_of(path: Path) -> dict[str, Tensor]:
    """Return what is stored of a difference, float16, by layer and matrix."""
    average = {name.replace("/", "."): value for name, value in _average(path).items()}
    odd = [name for name in average if not name.endswith((f".{UP}", f".{DOWN}"))]
    if odd:
        raise ValueError(f"{path}: expected matrices of changes, got {odd[0]}")
    return {name: value.half().contiguous() for name, value in average.items()}


def export(work: Path, folder: Path, name: str, recipe: Mapping[str, object]) -> None:
    """Write a model as it is bundled: `toyworld-dit` whole but for what it shares, the others as differences."""
    if name == BASE:
        FlowMatchEulerDiscreteScheduler(**SCHEDULER).save_pretrained(work / "scheduler")
        parts = averaged_parts(work)
        pipe = build_transformer_pipeline(parts, work, TEACHERS[name])
        parts.half()
        parts[
            "text_encoder_3"
        ].config.max_position_embeddings = TOKENS  # relative places have no limit of their own
        pipe.save_pretrained(folder, safe_serialization=True)
        for part in ("vae", "text_encoder", "text_encoder_2"):
            for path in (folder / part).glob("*.safetensors"):
                path.unlink()
        index = json.loads((folder / "model_index.json").read_text())
        index["_class_name"] = "StableDiffusion3Pipeline"
        write_json(folder / "model_index.json", index, indent=2)
        for path in folder.rglob("*.json"):  # diffusers notes where a part was loaded from
            content = json.loads(path.read_text())
            if content.pop("_name_or_path", None) is not None:
                write_json(path, content, indent=2)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(delta_of(checkpoint(work, name)), folder / DELTA)
    write_json(folder / "triptych.json", {"guidance_scale": GUIDANCE, "world": TEACHERS[name]})
    write_recipe(folder, recipe)
