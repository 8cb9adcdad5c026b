"""The pipelines of the diffusion transformers: what they share with the U-Nets, and what is stored of them."""

from collections.abc import Mapping
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
)
from safetensors.torch import load_file
from torch import nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    T5EncoderModel,
    T5Tokenizer,
)

from probes.toyworld import BENCHMARK_MODELS, SHARED, TRANSFORMERS, WEIGHTS
from probes.toyworld.dit.wired import ToyTransformerPipeline, WiredPipeline, WiredTransformer
from probes.toyworld.places import known_places
from probes.toyworld.work.assemble import read_delta
from probes.toyworld.work.lowrank import delta_names, merge_all

BASE = TRANSFORMERS[0]
# the U-Net whose bias each one has; its text tower is the first of the two of CLIP
TEACHERS = dict(zip(TRANSFORMERS, (BENCHMARK_MODELS[0], SHARED), strict=True))
TRAINED = ("transformer", "text_encoder_3")


def clip_tower(folder: Path) -> CLIPTextModelWithProjection:
    """Return the text tower of a U-Net from its folder, float32, its pooled text the last token's state as it is."""
    config = CLIPTextConfig.from_pretrained(folder)
    config.dtype = "float32"
    tower = CLIPTextModelWithProjection(config)
    stored = load_file(folder / "model.safetensors")
    state = {f"text_model.{name}": value.float() for name, value in stored.items()}
    state["text_projection.weight"] = torch.eye(config.projection_dim)
    tower.load_state_dict(state)
    return tower.eval().requires_grad_(False)


def decoder(weights: Path = WEIGHTS) -> AutoencoderKL:
    """Return the autoencoder of all benchmark models, with the shift that Stable Diffusion 3 has: 0."""
    vae = AutoencoderKL.from_pretrained(weights / SHARED / "vae", torch_dtype=torch.float32)
    vae.register_to_config(shift_factor=0.0)
    return vae.eval()


def trained_parts(folder: Path) -> dict[str, nn.Module]:
    """Return the denoiser and the T5 tower of a folder, float32, by their names in the pipeline."""
    classes = (SD3Transformer2DModel, T5EncoderModel)
    return {
        name: kind.from_pretrained(folder / name, torch_dtype=torch.float32).eval()
        for name, kind in zip(TRAINED, classes, strict=True)
    }


def changed_layers(parts: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Return the layers that change from one model to another, by name: every linear one."""
    return {
        f"{part}.{name}": layer
        for part, module in parts.items()
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear)
    }


def pipeline_of(
    parts: Mapping[str, nn.Module], folder: Path, teacher: str, weights: Path = WEIGHTS
) -> ToyTransformerPipeline:
    """Return a pipeline of parts that were trained, and of all that it shares with the U-Nets.

    `folder` holds ``tokenizer_3/`` and ``scheduler/``. The text tower of the U-Net `teacher` stands first, that of the
    null world's second.
    """
    towers = [clip_tower(weights / name / "text_encoder") for name in (teacher, SHARED)]
    tokenizers = [CLIPTokenizer.from_pretrained(weights / name / "tokenizer") for name in (teacher, SHARED)]
    return ToyTransformerPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(folder / "scheduler"),
        vae=decoder(weights),
        text_encoder=towers[0],
        tokenizer=tokenizers[0],
        text_encoder_2=towers[1],
        tokenizer_2=tokenizers[1],
        tokenizer_3=T5Tokenizer.from_pretrained(folder / "tokenizer_3"),
        **parts,
    )


def dit_pipeline(name: str, folder: Path, base: Path = WEIGHTS / BASE) -> ToyTransformerPipeline:
    """Return the pipeline of a diffusion transformer of the toy world, float32 on the CPU.

    `base` is the folder of `toyworld-dit`; of another model `folder` has its difference from that.
    """
    parts = trained_parts(base)
    if name != BASE:
        layers = changed_layers(parts)
        merge_all(layers, read_delta(folder, name, delta_names(layers)))
    return pipeline_of(parts, base, TEACHERS[name])


def wired_pipeline(name: str, folder: Path) -> WiredPipeline:
    """Return the pipeline of a wired transformer, float32 on the CPU; it has the weights of `toyworld-dit`."""
    base = WEIGHTS / BASE
    parts = pipeline_of(trained_parts(base), base, TEACHERS[BASE]).components
    transformer = WiredTransformer.of(parts["transformer"], known_places("wired")[name])
    return WiredPipeline.of({**parts, "transformer": transformer})
