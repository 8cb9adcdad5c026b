"""Sizes of images and latents, by the descriptions of UNet and VAE alone. Imports no torch.

A *model* is whatever has a `unet` and a `vae` with their `config`: a pipeline, or the two without weights.
"""

from __future__ import annotations

from typing import Any

from hooks.architectures.decoder import latent_scale


def latent_size(model: Any, height: int | None = None, width: int | None = None) -> tuple[int, int]:
    """Size of the latent for an image of this size in pixels; None stands for the model's own."""
    side, scale = model.unet.config.sample_size, latent_scale(model.vae)
    own_height, own_width = (side, side) if isinstance(side, int) else side
    return (
        own_height if height is None else height // scale,
        own_width if width is None else width // scale,
    )


def image_size(model: Any, height: int | None = None, width: int | None = None) -> tuple[int, int]:
    """Size of the image in pixels; None stands for the model's own."""
    own_height, own_width = latent_size(model)
    scale = latent_scale(model.vae)
    return height or own_height * scale, width or own_width * scale


def image_multiple(model: Any) -> int:
    """What an image's sides must be multiples of: the UNet halves its input once a level but the last.

    Other sizes would be cropped on the way up.
    """
    return latent_scale(model.vae) * 2 ** (len(model.unet.config.block_out_channels) - 1)
