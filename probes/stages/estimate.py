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
from probes.models.loading import meta_pipeline
from probes.models.requirements import image_size
from probes.models.source import Source
from probes.models.weights import parameter_count, pick_device
from probes.prompts.sample import Sample

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_PNG_PER_PIXEL = 1.5


def estimate(config: Config, samples: Sequence[Sample], source: Source) -> str:
    """Return a line with the images, disk space, workers and threads that generating a run takes."""
    pipe = meta_pipeline(source)
    height, width = image_size(pipe, config)
    heat = height * width // architecture_of(pipe).latent_scale(pipe) ** 2 * 4 if config.capture.words else 0
    maps, kept = heat * sum(len(one.words) for one in samples), kept_bytes(config, pipe, len(samples))
    return resources_line(config, pipe, len(samples), len(samples), maps=maps, kept=kept)


def resources_line(
    config: Config,
    pipe: Any,
    images: int,
    stored: int,
    at_once: int = 0,
    maps: float = 0.0,
    kept: float = 0.0,
) -> str:
    """Return a line: number of images, disk space (`stored` images, bytes of `maps` and `kept`), workers, batch."""
    device, (height, width) = pick_device(config.generate.device).type, image_size(pipe, config)
    threads = workers.thread_count(parameter_count(architecture_of(pipe).denoiser(pipe)), device)
    count = workers.worker_count(config.generate.workers, device=device, threads=threads, images=images)
    disk = _format_bytes(stored * height * width * _PNG_PER_PIXEL + maps + kept)
    of_kept = f", of which {_format_bytes(kept)} activations that are kept" if kept else ""
    rows = f", {at_once} images at once" if at_once else ""
    several = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in ((count, "worker"), (threads, "thread"))]
    return f"{images} images, {disk} on disk{of_kept} ({' of '.join(several)}{rows})"


def kept_bytes(config: Config, pipe: Any, images: int) -> float:
    """Return the bytes that activations of ``capture.keep`` take on disk, before compression; 0 if none are kept."""
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
    """Raise UserError if the activations to keep exceed ``capture.keep_limit`` gigabytes."""
    kept, limit = kept_bytes(config, meta_pipeline(source), images), config.capture.keep_limit
    if kept > limit * 1e9:
        raise UserError(
            f"capture.keep: expected at most {limit:g} GB (capture.keep_limit), got about {_format_bytes(kept)} of"
            f" {images:,} images: lower capture.keep_places, keep fewer sites, or raise the limit"
        )


def _format_bytes(count: float) -> str:
    """Return a number of bytes as text, in MB below one GB, else in GB."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
