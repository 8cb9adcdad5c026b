"""Stable Diffusion 1.x, 2.x, XL and 3 and FLUX.1 with random weights: their layers, heads and tokens, at any width.

A benchmark needs the shapes of the real models, not their weights. At width 1 the shapes are those of
CompVis/stable-diffusion-v1-4, stabilityai/stable-diffusion-2-1 and stabilityai/stable-diffusion-xl-base-1.0 but for
the vocabulary, which is that of `tests.tiny`; at a smaller width every channel count is multiplied by it and
rounded to what the heads and the group norms divide, and blocks, layers, heads, resolutions and the 77 tokens
stay.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    PNDMScheduler,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import load_file, save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from tests.benchmarks.transformer_shapes import TRANSFORMERS, build_transformer
from tests.tiny import END, tiny_tokenizer, vocabulary

ARCHITECTURES = ("sd14", "sd21", "sdxl", *TRANSFORMERS)
SCHEDULERS = {
    "ddim": DDIMScheduler,
    "pndm": PNDMScheduler,
    "euler": EulerDiscreteScheduler,
    "dpm": DPMSolverMultistepScheduler,
}
_NOISE = dict(
    beta_start=0.00085,
    beta_end=0.012,
    beta_schedule="scaled_linear",
    num_train_timesteps=1000,
    steps_offset=1,
    timestep_spacing="leading",
)
_DOWN, _UP = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"
_UNETS: dict[str, dict[str, Any]] = {
    "sd14": dict(
        block_out_channels=(320, 640, 1280, 1280),
        attention_head_dim=8,  # diffusers' name for the number of heads
        down_block_types=(_DOWN, _DOWN, _DOWN, "DownBlock2D"),
        up_block_types=("UpBlock2D", _UP, _UP, _UP),
    ),
    "sd21": dict(
        block_out_channels=(320, 640, 1280, 1280),
        attention_head_dim=(5, 10, 20, 20),
        down_block_types=(_DOWN, _DOWN, _DOWN, "DownBlock2D"),
        up_block_types=("UpBlock2D", _UP, _UP, _UP),
        use_linear_projection=True,
    ),
    "sdxl": dict(
        block_out_channels=(320, 640, 1280),
        attention_head_dim=(5, 10, 20),
        down_block_types=("DownBlock2D", _DOWN, _DOWN),
        up_block_types=(_UP, _UP, "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
    ),
}
_TEXT = {  # width, layers, heads, activation; SD 2.x holds the 23 layers of OpenCLIP-H that it uses
    "sd14": [(768, 12, 12, "quick_gelu")],
    "sd21": [(1024, 23, 16, "gelu")],
    "sdxl": [(768, 12, 12, "quick_gelu"), (1280, 32, 20, "gelu")],
}


def scheduler(name: str, prediction_type: str = "epsilon") -> Any:
    """A scheduler with Stable Diffusion's noise schedule.

    Parameters
    ----------
    name : {"ddim", "pndm", "euler", "dpm"}
    prediction_type : {"epsilon", "v_prediction"}
    """
    more: dict[str, Any] = {
        "ddim": dict(clip_sample=False, set_alpha_to_one=False),
        "pndm": dict(skip_prk_steps=True, set_alpha_to_one=False),
    }.get(name, {})
    return SCHEDULERS[name](**_NOISE, **more, prediction_type=prediction_type)


def build(
    architecture: str,
    *,
    width: float = 1.0,
    size: int = 512,
    seed: int = 0,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    scheduler_name: str = "ddim",
) -> Any:
    """A pipeline of an architecture with seeded random weights.

    Parameters
    ----------
    architecture : {"sd14", "sd21", "sdxl", "sd3", "flux"}
        The last two: `tests.benchmarks.transformer_shapes.build_transformer`.
    width : float
        Factor on every number of channels, the autoencoder's and the text encoders' too.
    size : int
        Height and width in pixels that the U-Net's configuration names: what the pipeline draws unless told,
        and all that DAAM goes by.
    seed : int
        Of the weights. They are drawn on `device`, so a CPU and a GPU get different ones.
    device : str
    dtype : torch.dtype
    scheduler_name : str
        See `scheduler`.

    Returns
    -------
    DiffusionPipeline
        Of the class that the published model has, without safety checker, progress bar off.
    """
    if architecture in TRANSFORMERS:
        return build_transformer(architecture, width=width, size=size, seed=seed, device=device, dtype=dtype)
    tokenizers = [
        tiny_tokenizer(77, pad_token=END if i == 0 and architecture != "sd21" else "!")
        for i in range(len(_TEXT[architecture]))
    ]
    with torch.device(device):
        encoders = [
            _text_encoder(tokenizer, *shape, factor=width, projected=number == 1)
            for number, (tokenizer, shape) in enumerate(zip(tokenizers, _TEXT[architecture]))
        ]
        unet = _unet(architecture, width, size, encoders)
        vae = _vae(width, 0.13025 if architecture == "sdxl" else 0.18215, size)
    for number, module in enumerate((*encoders, unet, vae)):
        _randomise(module, seed + number, device)
        if dtype != torch.float32:
            module.to(dtype)
        module.eval()
    parts = dict(
        tokenizer=tokenizers[0],
        text_encoder=encoders[0],
        unet=unet,
        vae=vae,
        scheduler=scheduler(scheduler_name, "v_prediction" if architecture == "sd21" else "epsilon"),
    )
    if architecture == "sdxl":
        pipe = StableDiffusionXLPipeline(
            **parts, tokenizer_2=tokenizers[1], text_encoder_2=encoders[1], add_watermarker=False
        )
    else:
        pipe = StableDiffusionPipeline(
            **parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False
        )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def save(pipe: Any, folder: Path) -> None:
    """Save a pipeline so that diffusers and transformers of 2023 load the same weights and vocabulary.

    They read the tokenizer from `vocab.json` and `merges.txt`, and the text encoder's weights below
    `text_model.`; today's read both layouts.
    """
    pipe.save_pretrained(folder)
    vocab, merges = vocabulary()
    for name in ("tokenizer", "tokenizer_2"):
        if (folder / name).is_dir():
            (folder / name / "vocab.json").write_text(json.dumps(vocab), "utf-8")
            lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
            (folder / name / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    for name in ("text_encoder", "text_encoder_2"):
        path = folder / name / "model.safetensors"
        if path.exists():
            weights = {
                key if key.startswith(("text_model.", "text_projection.")) else f"text_model.{key}": value
                for key, value in load_file(path).items()
            }
            save_file(weights, path, metadata={"format": "pt"})


def _channels(wanted: int, width: float, unit: int) -> int:
    return max(1, round(wanted * width / unit)) * unit


def _unet(architecture: str, width: float, size: int, encoders: list[Any]) -> UNet2DConditionModel:
    settings = dict(_UNETS[architecture])
    groups = 32 if width == 1 else 8
    heads = settings["attention_head_dim"]
    heads = heads if isinstance(heads, tuple) else (heads,) * len(settings["block_out_channels"])
    settings["block_out_channels"] = tuple(
        _channels(channels, width, math.lcm(groups, of_level))
        for channels, of_level in zip(settings["block_out_channels"], heads)
    )
    if architecture == "sdxl":
        settings["projection_class_embeddings_input_dim"] = encoders[1].config.projection_dim + 6 * 256
    return UNet2DConditionModel(
        sample_size=size // 8,
        cross_attention_dim=sum(encoder.config.hidden_size for encoder in encoders),
        norm_num_groups=groups,
        layers_per_block=2,
        **settings,
    )


def _text_encoder(
    tokenizer: Any, width: int, layers: int, heads: int, act: str, *, factor: float, projected: bool
) -> Any:
    size = _channels(width, factor, 4 * heads)
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=size,
        intermediate_size=4 * size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=tokenizer.model_max_length,
        hidden_act=act,
        projection_dim=size,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def _vae(width: float, scaling_factor: float, size: int) -> AutoencoderKL:
    groups = 32 if width == 1 else 4
    return AutoencoderKL(
        block_out_channels=tuple(_channels(channels, width, groups) for channels in (128, 256, 512, 512)),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        norm_num_groups=groups,
        sample_size=size,
        scaling_factor=scaling_factor,
    )


@torch.no_grad()
def _randomise(module: torch.nn.Module, seed: int, device: str) -> None:
    """Weights of unit gain, so that words and seeds visibly alter what is drawn."""
    generator = torch.Generator(device).manual_seed(seed)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator, device=device)
        if parameter.ndim > 1:
            parameter.copy_(noise / parameter[0].numel() ** 0.5)
        else:
            parameter.add_(0.02 * noise)
