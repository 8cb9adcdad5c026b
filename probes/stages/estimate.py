"""What a run will take, for ``triptych plan``: images, processes and disk. Loads no weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hooks.architectures.registry import architecture_of
from hooks.sites import resolve, shapes
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.models.loading import without_weights
from probes.models.requirements import image_size
from probes.models.source import Source
from probes.models.weights import parameters, pick_device
from probes.prompts.sample import Sample

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_PNG_PER_PIXEL = 1.5


def estimate(config: Config, samples: Sequence[Sample], source: Source) -> str:
    """What the generation of a run's images takes, in words."""
    pipe = without_weights(source)
    height, width = image_size(pipe, config)
    heat = height * width // architecture_of(pipe).latent_scale(pipe) ** 2 * 4 if config.capture.words else 0
    kept = kept_bytes(config, pipe, len(samples))
    disk = image_bytes(config, pipe, len(samples)) + kept + heat * sum(len(one.words) for one in samples)
    return in_words(config, source, len(samples), disk, kept=kept)


def in_words(
    config: Config, source: Source, images: int, disk: float, rows: int | None = None, kept: float = 0.0
) -> str:
    """Images, disk and processes; `rows` images at once, `kept` bytes of the disk are of `capture.keep`."""
    device, pipe = pick_device(config.generate.device), without_weights(source)
    threads = workers.threads(parameters(architecture_of(pipe).denoiser(pipe)), device.type)
    count = workers.worker_count(config.generate.workers, device=device.type, threads=threads, images=images)
    of_kept = f", of which {_size(kept)} activations that are kept" if kept else ""
    at_once = f", {rows} images at once" if rows else ""
    several = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in ((count, "worker"), (threads, "thread"))]
    return f"{images} images, {_size(disk)} on disk{of_kept} ({' of '.join(several)}{at_once})"


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
        _, places, channels = site.vectors(bare).shape
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
            f"capture.keep: expected at most {limit:g} GB (capture.keep_limit), got about {_size(kept)} of"
            f" {images:,} images: lower capture.keep_places, keep fewer sites, or raise the limit"
        )


def _size(count: float) -> str:
    """Bytes in words: MB below one GB."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
