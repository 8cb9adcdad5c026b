"""Bytes that a run takes in memory and on disk, from the model's description: no weights are loaded."""

from __future__ import annotations

from typing import Any

import torch

from hooks.architectures import decoder
from hooks.architectures.registry import architecture_of
from hooks.pooling import vectors
from hooks.sites import resolve, shapes
from probes.config.schema import Config
from probes.errors import UserError
from probes.models.loading import without_weights
from probes.models.requirements import image_size
from probes.models.source import Source
from probes.models.weights import modules, parameters

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_PNG_PER_PIXEL = 1.5


def model_bytes(config: Config, pipe: Any, rows: int) -> float:
    """Memory of a model that generates so many images at once; the pipeline needs no weights."""
    height, width = image_size(pipe, config)
    # the widest activations of the decoder: a few full-size maps of its narrowest level per image
    working = 8 * height * width * decoder.widest(architecture_of(pipe).decoder(pipe)) * rows
    return _BYTES[config.generate.dtype] * (1.4 * parameters(*modules(pipe).values()) + working)


def image_bytes(config: Config, pipe: Any, images: int) -> float:
    """Bytes that so many images take on disk."""
    height, width = image_size(pipe, config)
    return images * height * width * _PNG_PER_PIXEL


def kept_bytes(config: Config, pipe: Any, images: int) -> float:
    """Bytes that the activations of ``capture.keep`` take on disk, before compression, which gains little."""
    capture = config.capture
    if not capture.keep:
        return 0.0
    shape = shapes(pipe, *image_size(pipe, config))
    numbers = 0
    for site in resolve(pipe, capture.keep):
        bare = torch.empty(1, *shape[site.address], device="meta")
        _, places, channels = vectors(site, bare).shape
        count = {"all": places, "mean": 1}.get(capture.keep_places) or min(capture.keep_places, places)
        numbers += count * channels * (config.sampler.steps if site.per_step else 1)
    return float(images * numbers * _BYTES[capture.keep_dtype])


def require_room_for_kept(config: Config, source: Source, images: int) -> None:
    """Refuse a run that would keep more than ``capture.keep_limit``."""
    if not config.capture.keep:
        return
    kept, limit = kept_bytes(config, without_weights(source), images), config.capture.keep_limit
    if kept > limit * 1e9:
        raise UserError(
            f"capture.keep: expected at most {limit:g} GB (capture.keep_limit), got about {size_text(kept)} of"
            f" {images:,} images: lower capture.keep_places, keep fewer sites, or raise the limit"
        )


def size_text(count: float) -> str:
    """Bytes in words: MB below one GB."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
