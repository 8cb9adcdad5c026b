"""A UNet and a VAE without weights, and a call of them that computes nothing but shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


def without_weights(pipe: Any) -> SimpleNamespace:
    """UNet and VAE built anew on torch's meta device, and the pipeline's scheduler."""
    with torch.device("meta"):
        unet = type(pipe.unet).from_config(pipe.unet.config)
        vae = type(pipe.vae).from_config(pipe.vae.config)
    return SimpleNamespace(unet=unet, vae=vae, scheduler=pipe.scheduler)


def blank_call(unet: Any, size: tuple[int, int], tokens: int) -> dict[str, Any]:
    """Arguments of one call of a UNet on the meta device, for one row.

    Parameters
    ----------
    size : (int, int)
        Height and width of the latent.
    tokens : int
    """
    config = unet.config
    width = config.cross_attention_dim
    added = None
    if config.addition_embed_type == "text_time":
        pooled = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        added = {
            "text_embeds": torch.zeros(1, pooled, device="meta"),
            "time_ids": torch.zeros(1, 6, device="meta"),
        }
    return {
        "sample": torch.zeros(1, config.in_channels, *size, device="meta"),
        "timestep": torch.zeros(1, device="meta"),
        "encoder_hidden_states": torch.zeros(
            1, tokens, width if isinstance(width, int) else width[0], device="meta"
        ),
        "added_cond_kwargs": added,
    }


@torch.no_grad()
def run_once(bare: Any, size: tuple[int, int], tokens: int) -> None:
    """One call of the UNet and one of the decoder, for one image with a latent of this size."""
    bare.unet(**blank_call(bare.unet, size, tokens))
    bare.vae.decode(torch.zeros(1, bare.vae.config.latent_channels, *size, device="meta"))
