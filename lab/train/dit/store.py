"""Checkpoints of the diffusion transformers, and what of them is stored with the package."""

import json
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import T5Tokenizer

from lab.train.base.checkpoints import forget_paths
from lab.train.base.loop import MovingAverage
from lab.train.dit.model import SCHEDULER, TOKENS, new_parts
from lab.train.stages import write_json
from probes.models.pretrained import from_folder
from probes.toyworld import DIT as BASE
from probes.toyworld.pipelines import (
    DELTA,
    TEACHERS,
    build_transformer_pipeline,
)

GUIDANCE = 1.0  # the planted frequencies are those of the model without guidance


def _average(path: Path) -> dict[str, Tensor]:
    return torch.load(path, weights_only=True, map_location="cpu")["average"]


def averaged_parts(work: Path) -> nn.ModuleDict:
    """Return what `toyworld-dit` is stored as: the average of its weights, rounded to float16, in float32."""
    tokenizer = from_folder(T5Tokenizer, work / "tokenizer_3")
    parts = nn.ModuleDict(new_parts(len(tokenizer)))
    average = MovingAverage(parts, 0.0)
    average.values = _average(work / f"{BASE}.pt")
    average.copy_to(parts)
    return parts.half().float().eval()


def delta_of(path: Path) -> dict[str, Tensor]:
    """Return what is stored of a difference, float16, by layer and matrix."""
    average = {name.replace("/", "."): value for name, value in _average(path).items()}
    return {name: value.half().contiguous() for name, value in average.items()}


def export(work: Path, folder: Path, name: str) -> None:
    """Write a model as it is bundled: `toyworld-dit` whole but for what it shares, the others as differences."""
    if name == BASE:
        FlowMatchEulerDiscreteScheduler(**SCHEDULER).save_pretrained(work / "scheduler")
        parts = averaged_parts(work)
        pipe = build_transformer_pipeline(parts, work, TEACHERS[name])
        parts.half()
        # relative places have no limit of their own
        parts["text_encoder_3"].config.max_position_embeddings = TOKENS
        pipe.save_pretrained(folder, safe_serialization=True)
        for part in ("vae", "text_encoder", "text_encoder_2"):
            for path in (folder / part).glob("*.safetensors"):
                path.unlink()
        index = json.loads((folder / "model_index.json").read_text())
        index["_class_name"] = "StableDiffusion3Pipeline"
        write_json(folder / "model_index.json", index, indent=2)
        forget_paths(folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(delta_of(work / f"{name}.pt"), folder / DELTA)
    write_json(folder / "triptych.json", {"guidance_scale": GUIDANCE, "world": TEACHERS[name]})
