"""Stable Diffusion 1.x, 2.x, XL and 3 and FLUX.1 with random weights: their layers, heads and tokens, at any width.

A benchmark needs the shapes of the real models, not their weights. At width 1 the shapes are those of
CompVis/stable-diffusion-v1-4, stabilityai/stable-diffusion-2-1, stabilityai/stable-diffusion-xl-base-1.0,
stabilityai/stable-diffusion-3-medium and black-forest-labs/FLUX.1-dev but for the vocabulary, which is that of
`tests.tiny` and `tests.tiny_transformers`. At a smaller width every channel count is multiplied by it and rounded to
what the heads and the group norms divide, and blocks, layers, resolutions and the 77 tokens stay; a transformer and
its text encoders have fewer heads.
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
    FluxPipeline,
    FluxTransformer2DModel,
    PNDMScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel, CLIPTextModelWithProjection

from tests.tiny import END, _text_config, tiny_tokenizer, vocabulary
from tests.tiny_transformers import ROWS, _t5, named_towers

TRANSFORMERS = ("sd3", "flux")
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
_SD: dict[str, Any] = dict(
    block_out_channels=(320, 640, 1280, 1280),
    down_block_types=(_DOWN, _DOWN, _DOWN, "DownBlock2D"),
    up_block_types=("UpBlock2D", _UP, _UP, _UP),
)
_UNETS: dict[str, dict[str, Any]] = {
    "sd14": _SD | dict(attention_head_dim=8),  # diffusers' name for the number of heads
    "sd21": _SD | dict(attention_head_dim=(5, 10, 20, 20), use_linear_projection=True),
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
_CLIP_L, _CLIP_G = (12, 12, "quick_gelu"), (20, 32, "gelu")  # heads of 64, layers, activation


def scheduler(name: str, prediction_type: str = "epsilon") -> Any:
    """A scheduler of `SCHEDULERS` with Stable Diffusion's noise schedule."""
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
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Any:
    """A pipeline of one of `ARCHITECTURES` with seeded random weights, without safety checker and progress bar.

    `width` is a factor on every number of channels, `size` the pixels a side that the configuration names (what the
    pipeline generates unless told, and all that DAAM goes by). Weights are made on `device`, so a CPU and a GPU get
    different ones.
    """
    if architecture in TRANSFORMERS:
        return _transformer(architecture, width, size, device, dtype)
    tokenizers = [
        tiny_tokenizer(77, pad_token=END if i == 0 and architecture != "sd21" else "!")
        for i in range(len(_TEXT[architecture]))
    ]
    with torch.device(device):
        encoders = [
            _text_encoder(tokenizer, _channels(channels, width, 4 * heads), layers, heads, act, number == 1)
            for number, (tokenizer, (channels, layers, heads, act)) in enumerate(
                zip(tokenizers, _TEXT[architecture])
            )
        ]
        unet = _unet(architecture, width, size, encoders)
        vae = _vae(width, size, scaling_factor=0.13025 if architecture == "sdxl" else 0.18215)
    for number, module in enumerate((*encoders, unet, vae)):
        _randomise(module, number)
        if dtype != torch.float32:
            module.to(dtype)
        module.eval()
    parts = dict(
        tokenizer=tokenizers[0],
        text_encoder=encoders[0],
        unet=unet,
        vae=vae,
        scheduler=scheduler("ddim", "v_prediction" if architecture == "sd21" else "epsilon"),
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


def _text_encoder(tokenizer: Any, size: int, layers: int, heads: int, act: str, projected: bool) -> Any:
    more = dict(hidden_act=act, projection_dim=size, intermediate_size=4 * size)
    config = _text_config(tokenizer, size, layers, heads, **more)
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def _vae(width: float, size: int, latent_channels: int = 4, **settings: Any) -> AutoencoderKL:
    groups = 32 if width == 1 else 4
    return AutoencoderKL(
        block_out_channels=tuple(_channels(channels, width, groups) for channels in (128, 256, 512, 512)),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=latent_channels,
        norm_num_groups=groups,
        sample_size=size,
        **settings,
    )


def _transformer(architecture: str, width: float, size: int, device: str, dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # weights are made in it, so that 12 billion of them need no more
    try:
        with torch.device(device):
            pipe = {"sd3": _sd3, "flux": _flux}[architecture](width, size)
    finally:
        torch.set_default_dtype(before)
    for number, module in enumerate(m for m in pipe.components.values() if isinstance(m, torch.nn.Module)):
        _randomise(module.to(device).eval(), number)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _clip(width: float, heads: int, layers: int, act: str, projected: bool) -> tuple[Any, Any]:
    heads, tokenizer = _channels(heads, width, 1), tiny_tokenizer(77)
    return tokenizer, _text_encoder(tokenizer, 64 * heads, layers, heads, act, projected)


def _wide_t5(width: float) -> tuple[Any, Any]:
    heads = _channels(64, width, 1)
    return _t5(d_model=64 * heads, d_kv=64, d_ff=160 * heads, num_layers=24, num_heads=heads)


def _flow_vae(width: float, size: int, scaling: float, shift: float) -> AutoencoderKL:
    settings = dict(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False)
    return _vae(width, size, scaling_factor=scaling, shift_factor=shift, **settings)


def _sd3(width: float, size: int) -> StableDiffusion3Pipeline:
    heads = _channels(24, width, 1)
    towers = [_clip(width, *_CLIP_L, True), _clip(width, *_CLIP_G, True), _wide_t5(width)]
    encoders = [encoder for _, encoder in towers]
    transformer = SD3Transformer2DModel(
        sample_size=size // 8,
        patch_size=2,
        in_channels=16,
        out_channels=16,
        num_layers=24,
        attention_head_dim=64,
        num_attention_heads=heads,
        joint_attention_dim=encoders[2].config.d_model,
        caption_projection_dim=64 * heads,
        pooled_projection_dim=sum(encoder.config.projection_dim for encoder in encoders[:2]),
        pos_embed_max_size=192,
    )
    return StableDiffusion3Pipeline(
        transformer=transformer,
        vae=_flow_vae(width, size, 1.5305, 0.0609),
        scheduler=ROWS["sd3"].scheduler(),
        **named_towers(towers),
    )


def _flux(width: float, size: int) -> FluxPipeline:
    towers = [_clip(width, *_CLIP_L, False), _wide_t5(width)]
    clip, t5 = (encoder.config for _, encoder in towers)
    transformer = FluxTransformer2DModel(
        in_channels=64,
        num_layers=19,
        num_single_layers=38,
        attention_head_dim=128,
        num_attention_heads=_channels(24, width, 1),
        joint_attention_dim=t5.d_model,
        pooled_projection_dim=clip.hidden_size,
        guidance_embeds=True,
        axes_dims_rope=(16, 56, 56),
    )
    return FluxPipeline(
        transformer=transformer,
        vae=_flow_vae(width, size, 0.3611, 0.1159),
        scheduler=ROWS["flux-dev"].scheduler(),
        **named_towers(towers),
    )


@torch.no_grad()
def _randomise(module: torch.nn.Module, seed: int) -> None:
    """Give weights of unit gain, so that words and seeds visibly alter what is generated; none on the meta device."""
    if next(module.parameters()).is_meta:
        return
    generator = torch.Generator(next(module.parameters()).device).manual_seed(seed)
    for parameter in module.parameters():
        if parameter.ndim > 1:
            parameter.normal_(generator=generator).div_(parameter[0].numel() ** 0.5)
        else:
            parameter.add_(0.02 * torch.empty_like(parameter).normal_(generator=generator))
