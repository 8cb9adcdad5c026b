"""Number of workers of a stage, their threads, and the sizes of batches: what a machine has room for.

The number of workers alters no byte. A batch's size may alter the last bits of the images, so the size that was
chosen when a run began is a field of each part's identity, and a part of which some batches were smaller, since a
device had no room, says so (`batch` in its metadata; ``run.json`` lists the sizes). Loads no torch until it is asked
for threads or batches.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, inf
from pathlib import Path
from typing import Any, Literal, TypeVar

from probes.config.schema import Config
from probes.errors import UserError, pip_line
from probes.runs.parts import read_identity
from probes.runs.run import Run

SMALL = 50_000_000  # parameters of a model that one thread serves best
PROCESS_BYTES = 2.5e9  # of the machine's memory, for each process
# images that make a further process worth its start, some 10 s of one core unless it is forked: of the bundled model
# in 20 steps
EACH = 32
_EACH_MEASURED = 100  # the same where they are measured
_CGROUP = Path("/sys/fs/cgroup")
# Images of 64x64 latents that one batch may hold. On a CPU core, with the bundled model, batches of 30 images of
# 16x16 latents are some 5 % faster than batches of 15 and take twice the memory. The bytes an image takes on a GPU
# are measured when a run begins (`batch_generation.measure_image_bytes`); before, Stable Diffusion 1.5's are assumed.
_CPU_IMAGES = 1.0
_GPU_IMAGE_BYTES = 0.21e9
_REFERENCE_AREA = 64 * 64

Result = TypeVar("Result")


def core_count() -> int:
    """Return the number of cores that this process may use, by its affinity and its container's quota."""
    # which not every system has
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        count = max(1, min(count, ceil(int(quota) / int(period))))
    return count


def total_memory() -> float:
    """Return the bytes of memory of this machine; infinity if the system does not tell."""
    if hasattr(os, "sysconf"):
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    return inf


def thread_count(parameters: float, device: str) -> int:
    """Return the number of torch threads for a model of so many parameters: 1 if small on a CPU, else torch's own.

    On a CPU a small model is given one: on a busy machine several wait for one another for minutes, and several workers
    serve it better.
    """
    if parameters < SMALL and device.split(":")[0] == "cpu":
        return 1
    import torch

    return torch.get_num_threads()


def worker_count(
    setting: int | Literal["auto"], *, device: str, threads: int, images: float, per_worker: int = EACH
) -> int:
    """Return the number of workers of a stage: `setting` or, for "auto", what cores, memory, GPUs and work allow.

    `threads`: of one worker; `per_worker`: images for which a further one is worth its start. Each GPU has one.
    """
    if setting != "auto":
        return setting
    if device == "cuda":
        import torch

        kinds = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        return int(max(1, min(len(kinds), images / per_worker))) if len({*kinds}) == 1 else 1
    if device.split(":")[0] != "cpu":
        return 1
    return int(max(1, min(core_count() // threads, total_memory() / PROCESS_BYTES, images / per_worker)))


def process_count(config: Config, stage: str) -> int:
    """Return the number of processes that measure a run or (stage "report") write its report, one for each core."""
    images = inf if stage == "report" else len(config.prompts[: config.limit]) * len(config.seeds)
    images *= len(config.indicators)
    return worker_count(
        config.generate.workers, device="cpu", threads=1, images=images, per_worker=_EACH_MEASURED
    )


def require_cluster(config: Config, location: str = "--cluster") -> None:
    """Raise a UserError if a configured cluster cannot be used: Ray is not installed, or a device has a number."""
    if not config.clustered:
        return
    if importlib.util.find_spec("ray") is None:
        raise UserError(f"{location}: expected Ray, found none installed: {pip_line('cluster')}")
    for field, device in (("generate", config.generate.device), ("observe", config.observe.device)):
        if ":" in device:
            raise UserError(
                f"{field}.device: expected auto, cpu, cuda or mps on a cluster, whose workers see their own GPUs alone,"
                f" got {device}: take its number out"
            )


# Batches


def triplets_per_batch(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> int:
    """Return the number of triplets per batch that a device has memory for: at least one, at most a part's."""
    triplets = images_per_batch(pipe, device, config, image_bytes) / len(config.indicators)
    return max(1, min(floor(triplets), config.generate.part_triplets))


def images_per_batch(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> float:
    """Return the number of images per batch that a device has memory for, maybe below 1; needs no weights.

    On a CPU that is about one image of 64x64 latents; on a GPU half of the free memory is used, of which an image takes
    `image_bytes`, where they were measured.
    """
    import torch

    from hooks.architectures.registry import architecture_of
    from probes.models.requirements import image_size

    height, width = architecture_of(pipe).latent_size(pipe, *image_size(pipe, config))
    share = height * width / _REFERENCE_AREA
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return float(0.5 * free / (image_bytes or _GPU_IMAGE_BYTES * share))
    return _CPU_IMAGES / share


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error is one of a device without memory for a batch."""
    from accelerate.utils.memory import should_reduce_batch_size

    return isinstance(error, MemoryError) or (
        isinstance(error, Exception) and should_reduce_batch_size(error)
    )


@dataclass
class BatchSize:
    """A batch size, which is halved for the rest of this process when the device has no memory for a batch."""

    stage: str
    size: int
    unit: str  # for messages: triplets, images
    smallest: int  # fewer are no batch
    smallest_named: str
    dtype: str

    def fit(self, make: Callable[[int], Result], most: int) -> Result:
        """Return ``make(size)``, halving the size until the device has memory for it; UserError if none fits."""
        from accelerate.utils.memory import clear_device_cache

        while True:
            try:
                return make(self.size)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            clear_device_cache(garbage_collection=True)  # what the frames of the attempt held
            size = min(self.size, most)
            if size <= self.smallest:
                half = " use --dtype float16, smaller --height and --width (both with another --out), or"
                raise UserError(
                    f"{self.stage}: expected room on the device for {self.smallest_named}, found too little:"
                    f"{half if self.dtype == 'float32' else ''} free its memory and run again, finished parts are kept"
                )
            self.size = max(self.smallest, size // 2)
            line = f"{self.stage}: no room on the device for {size} {self.unit} at a time: goes on with {self.size}"
            print(line, file=sys.stderr, flush=True)


def used_batch_sizes(run: Run, kind: str, planned: int) -> list[int]:
    """Return the batch sizes with which a kind's parts were computed, with the `planned` one, descending."""
    used = {read_identity(file).get("batch", planned) for file in run.parts(kind)}
    return sorted({planned, *used}, reverse=True)
