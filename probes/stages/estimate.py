"""What a run will take, for ``triptych plan``: images, processes, memory and disk. Loads no weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hooks.architectures.registry import architecture_of
from hooks.sites import shapes
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.models.devices import pick_device
from probes.models.estimate import image_bytes, kept_bytes, model_bytes, size_text
from probes.models.loading import pick_model_dtype, without_weights
from probes.models.requirements import image_size
from probes.models.source import Source
from probes.models.weights import parameters
from probes.prompts.sample import Sample


@dataclass(frozen=True)
class RunEstimate:
    """Images, bytes of memory and disk, and processes of a run; ``kept`` is the share of `capture.keep` on disk."""

    images: int
    memory: float
    disk: float
    processes: str
    kept: float = 0.0

    def __str__(self) -> str:
        kept = f", of which {size_text(self.kept)} activations that are kept" if self.kept else ""
        return (
            f"{self.images} images, {self.memory / 1e9:.1f} GB of memory,"
            f" {size_text(self.disk)} on disk{kept} ({self.processes})"
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
    return workers.PROCESS_BYTES + model_bytes(config, pipe, members * draws if rows is None else rows)


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


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}"
