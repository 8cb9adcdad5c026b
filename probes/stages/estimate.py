"""What a run will take, for ``triptych plan``: images, disk space, processes. Loads no weights."""

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
    """Return a line on what generating a run takes: number of images, disk space, workers and threads."""
    pipe = meta_pipeline(source)
    height, width = image_size(pipe, config)
    heat = height * width // architecture_of(pipe).latent_scale(pipe) ** 2 * 4 if config.capture.words else 0
    maps, kept = heat * sum(len(one.words) for one in samples), kept_bytes(config, pipe, len(samples))
    return resources_line(config, pipe, len(samples), len(samples), map_bytes=maps, kept=kept)


def resources_line(
    config: Config,
    pipe: Any,
    images: int,
    stored: int,
    batch: int = 0,
    map_bytes: float = 0.0,
    kept: float = 0.0,
) -> str:
    """Return a line: number of `images`, disk space (`stored` of them, maps, activations), workers, batch size."""
    device, (height, width) = pick_device(config.generate.device).type, image_size(pipe, config)
    threads = workers.thread_count(parameter_count(architecture_of(pipe).denoiser(pipe)), device)
    count = workers.worker_count(config.generate.workers, device=device, threads=threads, images=images)
    disk = _format_bytes(stored * height * width * _PNG_PER_PIXEL + map_bytes + kept)
    of_kept = f", of which {_format_bytes(kept)} activations that are kept" if kept else ""
    rows = f", {batch} images at once" if batch else ""
    several = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in ((count, "worker"), (threads, "thread"))]
    return f"{images} images, {disk} on disk{of_kept} ({' of '.join(several)}{rows})"


def kept_bytes(config: Config, pipe: Any, images: int) -> float:
    """Return the bytes that the activations to keep of `images` images take on disk (``capture.keep``), or 0."""
    capture = config.capture
    if not capture.keep:
        return 0.0
    shape, steps = shapes(pipe, *image_size(pipe, config)), config.sampler.steps
    if config.generate.from_images is not None:
        steps = architecture_of(pipe).denoiser_calls(pipe, steps, config.generate.strength)
    numbers = 0
    for site in resolve(pipe, capture.keep):
        bare = torch.empty(1, *shape[site.address], device="meta")
        _, positions, channels = site.vectors(bare).shape
        count = {"all": positions, "mean": 1}.get(capture.keep_places) or min(capture.keep_places, positions)
        numbers += count * channels * (steps if site.per_step else 1)
    return float(images * numbers * _BYTES[capture.keep_dtype])


def require_allowed_size(config: Config, source: Source, images: int) -> None:
    """Raise UserError if the activations to keep of `images` images exceed ``capture.keep_limit`` gigabytes."""
    kept, limit = kept_bytes(config, meta_pipeline(source), images), config.capture.keep_limit
    if kept > limit * 1e9:
        raise UserError(
            f"capture.keep: expected at most {limit:g} GB (capture.keep_limit), got about {_format_bytes(kept)} of"
            f" {images:,} images: lower capture.keep_places, keep fewer sites, or raise the limit"
        )


def _format_bytes(count: float) -> str:
    """Return a number of bytes as text, such as "12 MB" or "1.5 GB"."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
