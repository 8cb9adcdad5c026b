"""Estimate of a run: images, memory and disk, for ``--dry-run``. Loads no weights.

Denoiser and decoder are built from their descriptions without weights (torch's meta device).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hooks.architectures.registry import architecture_of
from hooks.pooling import vectors
from hooks.shapes import shapes
from hooks.sites import resolve
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.models import loading
from probes.models.devices import pick_device
from probes.models.loading import Source
from probes.models.requirements import image_size
from probes.prompts.sample import Sample

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_PNG_PER_PIXEL = 1.5


@dataclass(frozen=True)
class RunEstimate:
    """Images, bytes of memory and disk, and processes of a run; ``kept`` is the share of `capture.keep` on disk."""

    images: int
    memory: float
    disk: float
    processes: str
    kept: float = 0.0

    def __str__(self) -> str:
        kept = f", of which {_size(self.kept)} activations that are kept" if self.kept else ""
        return (
            f"{self.images} images, {self.memory / 1e9:.1f} GB of memory,"
            f" {_size(self.disk)} on disk{kept} ({self.processes})"
        )


def parameters(pipe: Any) -> int:
    """Parameters of a pipeline's denoiser; the pipeline needs no weights."""
    return _numbers(architecture_of(pipe).denoiser(pipe))


def _numbers(network: Any) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _networks(pipe: Any) -> list[Any]:
    """The components of a pipeline that have weights: text encoders, denoiser and decoder."""
    layouts = {layout.pipeline: layout for layout in architecture_of(pipe).layouts}
    names = [base.__name__ for base in type(pipe).__mro__]
    layout = next(layouts[name] for name in names if name in layouts)
    return [getattr(pipe, one.name) for one in layout.networks]


@dataclass(frozen=True)
class Setup:
    """A model without weights, and the device, number format and threads that a run will use."""

    config: Config
    pipe: Any
    device: torch.device
    threads: int

    def processes(self, images: int, rows: int | None = None) -> int:
        """See `processes`."""
        return processes(self.config, self.pipe, self.device.type, self.threads, images, rows)

    def described(self, count: int) -> str:
        """Return so many processes in words."""
        return f"{_several(count, 'worker')} of {_several(self.threads, 'thread')}"


def setup(config: Config, source: Source) -> Setup:
    """Return how a run will use a model."""
    device = pick_device(config.generate.device)
    dtype = loading.pick_model_dtype(source, config.generate.dtype, device)
    config = config.model_copy(update={"generate": config.generate.model_copy(update={"dtype": dtype})})
    pipe = loading.without_weights(source, config.sampler.scheduler, config.sampler.steps)
    height, width = image_size(pipe, config)
    try:
        shapes(pipe, height, width)
    except RuntimeError as error:
        raise UserError(
            f"model {source.name}: expected one that draws {height} x {width} pixels, got `{error}`:"
            " choose another size"
        ) from None
    return Setup(config, pipe, device, workers.threads(parameters(pipe), device.type))


def estimate(config: Config, samples: Sequence[Sample], source: Source) -> RunEstimate:
    """Estimate the generation of a run's images."""
    chosen = setup(config, source)
    config, pipe = chosen.config, chosen.pipe
    count = chosen.processes(len(samples))
    height, width = image_size(pipe, config)
    heat = height * width // architecture_of(pipe).latent_scale(pipe) ** 2 * 4 if config.capture.words else 0
    kept = kept_bytes(config, pipe, len(samples))
    return RunEstimate(
        images=len(samples),
        memory=memory(config, pipe, count, len(samples)),
        disk=image_bytes(config, pipe, len(samples))
        + sum(len(sample.words) for sample in samples) * heat
        + kept,
        processes=chosen.described(count),
        kept=kept,
    )


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
    pipe = loading.without_weights(source, config.sampler.scheduler, config.sampler.steps)
    kept, limit = kept_bytes(config, pipe, images), config.capture.keep_limit
    if kept > limit * 1e9:
        raise UserError(
            f"capture.keep: expected at most {limit:g} GB (capture.keep_limit), got about {_size(kept)} of"
            f" {images:,} images: lower capture.keep_places, keep fewer sites, or raise the limit"
        )


def memory(config: Config, pipe: Any, count: int, images: int, rows: int | None = None) -> float:
    """Bytes that so many workers take, and the process that they help."""
    more = workers.PROCESS_BYTES if count > 1 else 0
    return count * worker_memory(config, pipe, images, rows) + more


def worker_memory(config: Config, pipe: Any, images: int, rows: int | None = None) -> float:
    """Bytes that one process takes which draws batches of a run of so many images; `rows`: images in a batch."""
    height, width = image_size(pipe, config)
    members = len(config.indicators)
    # the widest activations of the decoder: a few full-size maps of its narrowest level per image
    draws = 1 if config.generate.batch_triplets == "auto" else config.generate.batch_triplets
    draws = min(draws, max(1, images // members))
    architecture = architecture_of(pipe)
    weights = sum(map(_numbers, _networks(pipe)))
    working = (
        8 * height * width * architecture.decoder_channels(pipe) * (members * draws if rows is None else rows)
    )
    return workers.PROCESS_BYTES + _BYTES[config.generate.dtype] * (1.4 * weights + working)


def processes(
    config: Config, pipe: Any, device: str, threads: int, images: int, rows: int | None = None
) -> int:
    """Return the number of workers for so many images; `rows`: images in a batch.

    By `probes.execution.workers.worker_count`.
    """
    return workers.worker_count(
        config.generate.workers,
        device=device,
        threads=threads,
        memory=worker_memory(config, pipe, images, rows),
        seconds=images * config.sampler.steps * workers.IMAGE_STEP,
    )


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def _size(count: float) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
