"""The size of the images that a configuration asks of a model."""

from __future__ import annotations

from typing import Any

from hooks.architectures import unet_size
from probes.config.schema import Config
from probes.errors import UserError


def image_size(model: Any, config: Config) -> tuple[int, int]:
    """Height and width of the images in pixels.

    Parameters
    ----------
    model
        A pipeline, or its ``unet`` and ``vae`` without weights (:class:`probes.models.estimate.Description`).

    Raises
    ------
    UserError
        The U-Net cannot halve the size that is asked for.
    """
    multiple = unet_size.image_multiple(model)
    asked = config.sampler.height, config.sampler.width
    for name, pixels in zip(("height", "width"), asked):
        if pixels is not None and pixels % multiple:
            raise UserError(
                f"sampler.{name}: expected a multiple of {multiple} for this model, got {pixels}:"
                f" use {max(1, round(pixels / multiple)) * multiple}"
            )
    return unet_size.image_size(model, *asked)
