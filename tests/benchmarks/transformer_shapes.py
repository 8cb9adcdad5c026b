"""Stable Diffusion 3 and FLUX.1 with random weights, in the shapes of the published ones.

Blocks, heads, widths and tokens are those of stabilityai/stable-diffusion-3-medium and black-forest-labs/FLUX.1-dev, of
the three text encoders and of the autoencoder; vocabularies are those of `tests.tiny_transformers`. A smaller width has
fewer heads in the denoiser, and narrower text encoders and autoencoder.
"""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, T5Config, T5EncoderModel

from tests.tiny import tiny_tokenizer
from tests.tiny_transformers import t5_tokenizer

TRANSFORMERS = ("sd3", "flux")
_CLIP = {"l": (12, 64, 12, "quick_gelu"), "g": (20, 64, 32, "gelu")}  # heads, their width, layers, activation


def build_transformer(
    architecture: str,
    *,
    width: float = 1.0,
    size: int = 1024,
    seed: int = 0,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Any:
    """A pipeline of an architecture with seeded random weights.

    Parameters
    ----------
    architecture : {"sd3", "flux"}
    width : float
        Factor on the number of heads of denoiser and text encoders, and on the autoencoder's channels.
    size : int
        Height and width in pixels that the configuration names.
    seed : int
        Of the weights. They are drawn on `device`.
    device : str
    dtype : torch.dtype
        Weights are made in it, so that 12 billion of them need no more.

    Returns
    -------
    StableDiffusion3Pipeline or FluxPipeline
        Progress bar off.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            pipe = {"sd3": _sd3, "flux": _flux}[architecture](width, size)
    finally:
        torch.set_default_dtype(before)
    for number, module in enumerate(m for m in pipe.components.values() if isinstance(m, torch.nn.Module)):
        _randomise(module.to(device).eval(), seed + number)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _heads(count: int, width: float) -> int:
    return max(1, round(count * width))


def _clip(name: str, width: float, projected: bool) -> tuple[Any, Any]:
    heads, each, layers, activation = _CLIP[name]
    heads = _heads(heads, width)
    tokenizer = tiny_tokenizer(77)
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=heads * each,
        intermediate_size=4 * heads * each,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=77,
        hidden_act=activation,
        projection_dim=heads * each,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return tokenizer, (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def _t5(width: float) -> tuple[Any, Any]:
    heads, tokenizer = _heads(64, width), t5_tokenizer()
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=64 * heads,
        d_kv=64,
        d_ff=160 * heads,
        num_layers=24,
        num_heads=heads,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    return tokenizer, T5EncoderModel(config)


def _vae(width: float, scaling: float, shift: float, size: int) -> AutoencoderKL:
    groups = 32 if width == 1 else 4
    return AutoencoderKL(
        block_out_channels=tuple(max(1, round(c * width / groups)) * groups for c in (128, 256, 512, 512)),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=16,
        norm_num_groups=groups,
        sample_size=size,
        scaling_factor=scaling,
        shift_factor=shift,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def _sd3(width: float, size: int) -> StableDiffusion3Pipeline:
    heads = _heads(24, width)
    towers = [_clip("l", width, True), _clip("g", width, True), _t5(width)]
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
        vae=_vae(width, 1.5305, 0.0609, size),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        **{
            f"{part}{f'_{number}' if number > 1 else ''}": one
            for number, tower in enumerate(towers, 1)
            for part, one in zip(("tokenizer", "text_encoder"), tower, strict=True)
        },
    )


def _flux(width: float, size: int) -> FluxPipeline:
    (tokenizer, encoder), (tokenizer_2, encoder_2) = _clip("l", width, False), _t5(width)
    transformer = FluxTransformer2DModel(
        in_channels=64,
        num_layers=19,
        num_single_layers=38,
        attention_head_dim=128,
        num_attention_heads=_heads(24, width),
        joint_attention_dim=encoder_2.config.d_model,
        pooled_projection_dim=encoder.config.hidden_size,
        guidance_embeds=True,
        axes_dims_rope=(16, 56, 56),
    )
    return FluxPipeline(
        transformer=transformer,
        vae=_vae(width, 0.3611, 0.1159, size),
        scheduler=FlowMatchEulerDiscreteScheduler(
            shift=3.0,
            use_dynamic_shifting=True,
            base_shift=0.5,
            max_shift=1.15,
            base_image_seq_len=256,
            max_image_seq_len=4096,
        ),
        tokenizer=tokenizer,
        text_encoder=encoder,
        tokenizer_2=tokenizer_2,
        text_encoder_2=encoder_2,
    )


@torch.no_grad()
def _randomise(module: torch.nn.Module, seed: int) -> None:
    """Weights of unit gain, so that words and seeds visibly alter what is drawn."""
    device = next(module.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    for parameter in module.parameters():
        if parameter.ndim > 1:
            parameter.normal_(generator=generator).div_(parameter[0].numel() ** 0.5)
        else:
            parameter.add_(0.02 * torch.randn_like(parameter))
