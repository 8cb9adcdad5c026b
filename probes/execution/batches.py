"""Sizes of batches: chosen when a run begins, and halved in a process whose device has no room.

A batch's size may alter the last bits of what is drawn, so the size that was chosen is a field of each part's identity,
and a part of which some batches were smaller says so (`batch` in its metadata; ``run.json`` lists the sizes).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from hooks.architectures.registry import architecture_of
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.models import loading
from probes.models.requirements import image_size
from probes.models.weights import parameters
from probes.runs.parts import read_identity
from probes.runs.run import Run

# Images of 64x64 latents that one batch may hold. On a CPU core, with the bundled model, batches of 30 images of
# 16x16 latents are some 5 % faster than batches of 15 and take twice the memory. The bytes an image takes on a GPU
# are measured when a run begins (`probes.stages.drawing.image_bytes`); before, Stable Diffusion 1.5's are assumed.
_CPU_IMAGES = 1.0
_GPU_IMAGE_BYTES = 0.21e9
_REFERENCE_AREA = 64 * 64

Result = TypeVar("Result")


def auto_batch(
    loaded: loading.LoadedModel, members: int, config: Config, image_bytes: float | None = None
) -> int:
    """Draws per batch that the device holds comfortably, at least one and at most a part.

    On a CPU the batch is about as large as one image of 64x64 latents; on a GPU half of the free memory is
    used.
    """
    images = auto_images(loaded.pipe, loaded.device, config, image_bytes)
    return max(1, min(math.floor(images / members), config.generate.part_triplets))


def auto_images(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> float:
    """Images per batch that a device holds comfortably; may be less than one. The pipeline needs no weights.

    An image takes `image_bytes` on a GPU, where they were measured.
    """
    height, width = architecture_of(pipe).latent_size(pipe, *image_size(pipe, config))
    share = height * width / _REFERENCE_AREA
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return float(0.5 * free / (image_bytes or _GPU_IMAGE_BYTES * share))
    return _CPU_IMAGES / share


def threads(pipe: Any, device: str) -> int:
    """Threads that torch is given for a model on a device."""
    return workers.threads(parameters(architecture_of(pipe).denoiser(pipe)), device)


def no_room(error: BaseException) -> bool:
    """Return whether an error says that the device has no room for a batch."""
    return isinstance(error, MemoryError) or (
        isinstance(error, Exception) and should_reduce_batch_size(error)
    )


@dataclass
class BatchSize:
    """A size of batches that is halved, for good in this process, where the device has no room for one."""

    stage: str
    size: int
    what: str  # for messages: triplets, images
    smallest: int  # fewer are no batch
    smallest_named: str
    dtype: str

    def fit(self, make: Callable[[int], Result], most: int) -> Result:
        """Return what `make` gives for the largest size that fits; no batch of it holds more than `most`."""
        while True:
            try:
                return make(self.size)
            except (RuntimeError, MemoryError) as error:
                if not no_room(error):
                    raise
            clear_device_cache(garbage_collection=True)  # what the frames of the attempt held
            self._halve(min(self.size, most))

    def _halve(self, size: int) -> None:
        if size <= self.smallest:
            half = " use --dtype float16, smaller --height and --width (both with another --out), or"
            raise UserError(
                f"{self.stage}: expected room on the device for {self.smallest_named}, found too little:"
                f"{half if self.dtype == 'float32' else ''} free its memory and run again, finished parts are kept"
            )
        self.size = max(self.smallest, size // 2)
        line = (
            f"{self.stage}: no room on the device for {size} {self.what} at a time: goes on with {self.size}"
        )
        print(line, file=sys.stderr, flush=True)


def used_sizes(run: Run, kind: str, planned: int) -> list[int]:
    """Return the sizes of the batches that the parts of a kind were drawn with, the one that was planned first."""
    used = {read_identity(file).get("batch", planned) for file in run.parts(kind)}
    return sorted({planned, *used}, reverse=True)
