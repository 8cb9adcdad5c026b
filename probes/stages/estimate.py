"""What a run will take, for ``triptych plan``: images, processes, memory and disk. Loads no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hooks.architectures import decoder
from hooks.architectures.registry import architecture_of
from hooks.pooling import vectors
from hooks.sites import resolve, shapes
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.models.devices import pick_device
from probes.models.loading import pick_model_dtype, without_weights
from probes.models.requirements import image_size
from probes.models.source import Source
from probes.models.weights import modules, parameters
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


@dataclass(frozen=True)
class Setup:
    """A model without weights, and the device, number format and threads that a run will use."""

    config: Config
    pipe: Any
    device: torch.device
    threads: int

    def estimate(self, images: int, disk: float, rows: int | None = None, kept: float = 0.0) -> RunEstimate:
        """What it takes to generate so many images, `rows` at once."""
        count = processes(self.config, self.pipe, self.device.type, self.threads, images, rows)
        memory = count * worker_memory(self.config, self.pipe, images, rows)
        memory += workers.PROCESS_BYTES if count > 1 else 0  # the process that they help
        text = f"{_several(count, 'worker')} of {_several(self.threads, 'thread')}"
        text += f", {rows} images at once" if rows else ""
        return RunEstimate(images, memory, disk, text, kept)


def setup(config: Config, source: Source) -> Setup:
    """How a run will use a model."""
    device = pick_device(config.generate.device)
    dtype = pick_model_dtype(source, config.generate.dtype, device)
    config = config.model_copy(update={"generate": config.generate.model_copy(update={"dtype": dtype})})
    pipe = without_weights(source)
    height, width = image_size(pipe, config)
    try:
        shapes(pipe, height, width)
    except RuntimeError as error:
        raise UserError(
            f"model {source.name}: expected one that draws {height} x {width} pixels, got `{error}`:"
            " choose another size"
        ) from None
    threads = workers.threads(parameters(architecture_of(pipe).denoiser(pipe)), device.type)
    return Setup(config, pipe, device, threads)


def estimate(config: Config, samples: Sequence[Sample], source: Source) -> RunEstimate:
    """Estimate the generation of a run's images."""
    chosen = setup(config, source)
    config, pipe = chosen.config, chosen.pipe
    height, width = image_size(pipe, config)
    heat = height * width // architecture_of(pipe).latent_scale(pipe) ** 2 * 4 if config.capture.words else 0
    kept = kept_bytes(config, pipe, len(samples))
    disk = image_bytes(config, pipe, len(samples)) + kept + heat * sum(len(one.words) for one in samples)
    return chosen.estimate(len(samples), disk, kept=kept)


def worker_memory(config: Config, pipe: Any, images: int, rows: int | None = None) -> float:
    """Bytes that one process takes which draws batches of a run of so many images; `rows`: images in a batch."""
    members, draws = len(config.indicators), config.generate.batch_triplets
    draws = min(1 if draws == "auto" else draws, max(1, images // members))
    height, width = image_size(pipe, config)
    # the widest activations of the decoder: a few full-size maps of its narrowest level per image
    working = 8 * height * width * decoder.widest(architecture_of(pipe).decoder(pipe))
    working *= members * draws if rows is None else rows
    weights = 1.4 * parameters(*modules(pipe).values())
    return workers.PROCESS_BYTES + _BYTES[config.generate.dtype] * (weights + working)


def processes(
    config: Config, pipe: Any, device: str, threads: int, images: int, rows: int | None = None
) -> int:
    """The number of workers for so many images; `rows`: images in a batch."""
    return workers.worker_count(
        config.generate.workers,
        device=device,
        threads=threads,
        memory=worker_memory(config, pipe, images, rows),
        seconds=images * config.sampler.steps * workers.IMAGE_STEP,
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
    kept, limit = kept_bytes(config, without_weights(source), images), config.capture.keep_limit
    if kept > limit * 1e9:
        raise UserError(
            f"capture.keep: expected at most {limit:g} GB (capture.keep_limit), got about {_size(kept)} of"
            f" {images:,} images: lower capture.keep_places, keep fewer sites, or raise the limit"
        )


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"


def _size(count: float) -> str:
    """Bytes in words: MB below one GB."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
