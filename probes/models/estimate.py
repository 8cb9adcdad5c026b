"""Estimate of a run: images, time, memory and disk, for ``--dry-run``. Loads no weights.

Denoiser and decoder are built from their descriptions without weights (torch's meta device) and the
floating-point operations of one call are counted. Time is that count over the speed of this machine, and over the
workers that draw side by side. Of a small model on a CPU the speed is that of some steps of a bundled model that
were just timed (`probes.stages.calibration`); of others it is that of a matrix product, times a stated share of it:
an order of magnitude, not a promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

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
from probes.models.requirements import guided, image_size
from probes.prompts.plan import Sample

# Share of its speed in one large matrix product that a device reaches in a denoiser with the probe around it.
# Measured with the bundled model on one CPU core: 0.5 to 0.6; a GPU is assumed to be like it.
_SHARE = 0.5
_PACED = "as toyworld's steps just timed"
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_PNG_PER_PIXEL = 1.5


@dataclass(frozen=True)
class RunEstimate:
    """Estimate of a run, and its basis; ``pixels`` are those of an image, ``kept`` the share of `capture.keep`."""

    images: int
    seconds: float
    memory: float
    disk: float
    basis: str
    pixels: int = 0
    kept: float = 0.0

    def __str__(self) -> str:
        kept = f", of which {_size(self.kept)} activations that are kept" if self.kept else ""
        return (
            f"{self.images} images, about {duration(self.seconds)}, {self.memory / 1e9:.1f} GB of memory,"
            f" {_size(self.disk)} on disk{kept} ({self.basis})"
        )


@dataclass(frozen=True)
class Pace:
    """Pace of one core of this machine (`probes.stages.calibration.pace`).

    Attributes
    ----------
    step, image : float
        Seconds of the processor for an image of toyworld: of each step, and of all that is done once for it.
    speed : float
        Operations of the denoiser a second, in these steps.
    script : float
        Seconds of the processor for a fixed script of small array operations and texts.
    """

    step: float
    image: float
    speed: float
    script: float


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


def operations(pipe: Any, height: int, width: int) -> tuple[float, float]:
    """Floating-point operations of one call of the denoiser and of decoding one image.

    Parameters
    ----------
    pipe
        On torch's meta device.
    height, width
        Of the image in pixels.
    """
    architecture = architecture_of(pipe)
    size, tokens = architecture.latent_size(pipe, height, width), architecture.prompt_tokens(pipe)
    counts = []
    for call in (
        lambda: architecture.call_once(pipe, size, tokens),
        lambda: architecture.decode_once(pipe, size),
    ):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            call()
        counts.append(float(counter.get_total_flops()))
    return counts[0], counts[1]


@dataclass(frozen=True)
class Cost:
    """Cost of generating with a model on a device, in the number format of `config`."""

    config: Config
    pipe: Any  # without weights
    device: torch.device
    threads: int
    per_call: float
    per_image: float
    speed: float
    once: float = 0.0  # seconds for an image beside its steps
    timed: str = f"{_SHARE:.0%} of a matrix product just timed"

    def seconds(self, images: float, count: int) -> float:
        """Return what so many workers take for so many images."""
        return images * (self.per_image / self.speed + self.once) / min(count, workers.cores())

    def basis(self, count: int) -> str:
        """Return how it was reckoned, for so many workers."""
        denoiser, steps = architecture_of(self.pipe).denoiser_name, self.config.sampler.steps
        return (
            f"{_several(count, 'worker')} of {_several(self.threads, 'thread')};"
            f" {self.per_call / 1e9:.2g} GFLOP a {denoiser} call counted on its description, {steps} steps,"
            f" {self.speed / 1e9:.3g} GFLOP/s on {self.device}: {self.timed}"
        )

    def processes(self, images: int, rows: int | None = None) -> int:
        """See `processes`."""
        return processes(self.config, self.pipe, self.device.type, self.threads, images, rows)


def cost(config: Config, source: Source, pace: Pace | None = None) -> Cost:
    """Count the operations of an image, and time the device.

    Parameters
    ----------
    config, source
        The configuration and its model.
    pace
        That of this machine, which says the speed of a small model on a CPU; without it, as of all others, the speed is
        a share of that of a matrix product.

    Raises
    ------
    UserError
        The description of the model is damaged, or the model cannot draw images of that size.
    """
    device = pick_device(config.generate.device)
    dtype = loading.pick_model_dtype(source, config.generate.dtype, device)
    config = config.model_copy(update={"generate": config.generate.model_copy(update={"dtype": dtype})})
    pipe = loading.without_weights(source, config.sampler.scheduler, config.sampler.steps)
    height, width = image_size(pipe, config)
    try:
        per_call, decoding = operations(pipe, height, width)
    except RuntimeError as error:
        raise UserError(
            f"model {source.name}: expected one that draws {height} x {width} pixels, got `{error}`:"
            " choose another size"
        ) from None
    per_image = per_call * config.sampler.steps * (2 if guided(config, source) else 1) + decoding
    threads = workers.threads(parameters(pipe), device.type)
    if pace is not None and device.type == "cpu" and threads == 1:
        return Cost(config, pipe, device, threads, per_call, per_image, pace.speed, pace.image, _PACED)
    reached = speed(device, config.generate.dtype, threads)
    return Cost(config, pipe, device, threads, per_call, per_image, reached)


def estimate(
    config: Config, samples: Sequence[Sample], source: Source, pace: Pace | None = None
) -> RunEstimate:
    """Estimate the generation of a run's images; `pace` as for `cost`.

    Raises
    ------
    UserError
        The description of the model is damaged, or the model cannot draw images of that size.
    """
    costs = cost(config, source, pace)
    config, pipe = costs.config, costs.pipe
    count = costs.processes(len(samples))
    height, width = image_size(pipe, config)
    heat = height * width // architecture_of(pipe).latent_scale(pipe) ** 2 * 4 if config.capture.words else 0
    kept = kept_bytes(config, pipe, len(samples))
    return RunEstimate(
        images=len(samples),
        seconds=costs.seconds(len(samples), count),
        memory=memory(config, pipe, count, len(samples)),
        disk=image_bytes(config, pipe, len(samples))
        + sum(len(sample.words) for sample in samples) * heat
        + kept,
        basis=costs.basis(count),
        pixels=height * width,
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
    """Refuse a run that would keep more than ``capture.keep_limit``.

    Raises
    ------
    UserError
    """
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


def speed(device: torch.device, dtype: str, threads: int) -> float:
    """Return the operations a second that a device is taken to reach in a denoiser with the probe around it."""
    with workers.deterministic(threads):
        return _speed(device, getattr(torch, dtype)) * _SHARE


@cache
def _speed(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second in a matrix product, the best of thirty: other work on the machine is left out."""
    size = 512 if device.type == "cpu" else 4096
    left = torch.ones(size, size, device=device, dtype=dtype)
    best = 0.0
    for _ in range(30):
        began = monotonic()
        product = left @ left
        product[0, 0].item()  # waits for a GPU
        best = max(best, 2 * size**3 / max(monotonic() - began, 1e-6))
    return best


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours.

    Examples
    --------
    >>> duration(42.3), duration(600), duration(7200)
    ('42 s', '10 min', '2.0 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def _size(count: float) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
