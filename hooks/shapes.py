"""The shape of a row at each site, from the modules' descriptions alone: nothing is computed.

The UNet and the VAE's decoder are built anew without weights (torch's meta device) and run once with the
hooks that a probe attaches; a text encoder's shapes follow from its configuration.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from hooks.architectures.unet import TEXT_ENCODERS, Site, module_at, table
from hooks.attention.layers import latent_size, prompt_tokens
from hooks.records import attach


def shapes(pipe: Any, height: int | None = None, width: int | None = None) -> dict[str, tuple[int, ...]]:
    """Shape of a row at each site, by address.

    Parameters
    ----------
    pipe : DiffusionPipeline
    height, width : int, optional
        Of the image in pixels; the model's own, unless told.
    """
    size = latent_size(pipe, height, width)
    with torch.device("meta"):
        unet = type(pipe.unet).from_config(pipe.unet.config)
        vae = type(pipe.vae).from_config(pipe.vae.config)
    bare = SimpleNamespace(unet=unet, vae=vae, scheduler=pipe.scheduler)
    found: dict[str, tuple[int, ...]] = {}

    def keep(site: Site) -> Any:
        def receive(values: Any) -> None:
            found[site.address] = tuple(values.shape[1:])

        return receive

    for site in table(bare):
        if site.kind in ("unet", "vae", "image"):
            attach(module_at(bare, site.module), site, keep(site))
    text = _run_unet(unet, size, prompt_tokens(pipe))
    channels = vae.config.latent_channels
    with torch.no_grad():
        vae.decode(torch.zeros(1, channels, *size, device="meta"))
    for site in table(pipe):
        if site.address not in found:
            found[site.address] = _text_shape(pipe, site, text) if site.kind == "text" else (channels, *size)
    return found


def _run_unet(unet: Any, size: tuple[int, int], tokens: int) -> tuple[int, int]:
    """Run it once; gives the shape of its text."""
    config = unet.config
    cross = config.cross_attention_dim
    text = (tokens, cross if isinstance(cross, int) else cross[0])
    added = None
    if config.addition_embed_type == "text_time":
        pooled = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        added = {
            "text_embeds": torch.zeros(1, pooled, device="meta"),
            "time_ids": torch.zeros(1, 6, device="meta"),
        }
    sample = torch.zeros(1, config.in_channels, *size, device="meta")
    states = torch.zeros(1, *text, device="meta")
    with torch.no_grad():
        unet(sample, torch.zeros(1, device="meta"), states, added_cond_kwargs=added)
    return text


def _text_shape(pipe: Any, site: Site, text: tuple[int, int]) -> tuple[int, ...]:
    if site.address == "text.final":
        return text
    encoder = getattr(pipe, TEXT_ENCODERS[site.address.split(".")[0]])
    config = getattr(encoder.config, "text_config", encoder.config)
    if site.heads is not None:
        return config.max_position_embeddings, site.heads, config.hidden_size // site.heads
    return config.max_position_embeddings, config.hidden_size
