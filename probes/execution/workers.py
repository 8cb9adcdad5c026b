"""Number of workers of a stage, and their settings, such that the number alters no byte.

Loads no torch until it is asked for threads.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from math import ceil, inf
from pathlib import Path
from typing import Literal

from probes.config.schema import Config
from probes.errors import UserError
from probes.toyworld import MODELS
from probes.versions import pip_line

SMALL = 50_000_000  # parameters of a model that one thread serves best
PROCESS_BYTES = 1.0e9  # Python, torch and diffusers without a model
# seconds of one core, for an image of 64 pixels and a step with the probe around it: measured with the bundled model
IMAGE_STEP = 0.02
_START_SECONDS = 10.0  # of one core, until a new process has loaded its libraries and a model
# of measuring and reporting: bytes of one process, and more for an image; seconds of one core, and more for an image
_RESULTS = {"measure": (0.5e9, 15e3, 0.0, 0.03), "report": (0.5e9, 0.0, 12.0, 0.0)}
_GPU = Path("/dev/nvidiactl")
_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores that this process may use: its affinity, or less where a container is given a share of the machine."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        return max(1, min(_affinity(), ceil(int(quota) / int(period))))
    return _affinity()


def _affinity() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def available_memory() -> float:
    """Bytes that new processes may take: what the machine has, or less where a container has a limit."""
    limit = inf
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
        taken = next(int(line.split()[1]) for line in lines if line.startswith("anon "))
        limit = int((_CGROUP / "memory.max").read_text()) - taken
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
        return max(0.0, min(free, limit))
    return limit  # of a system that does not say what is free


def threads(parameters: float, device: str) -> int:
    """Threads that torch is given for a model, the same in each of several workers as in one.

    On a CPU a small model is given one: on a busy machine several wait for one another for minutes, and several workers
    serve it better.
    """
    if parameters < SMALL and device.split(":")[0] == "cpu":
        return 1
    import torch

    return torch.get_num_threads()


def worker_count(
    setting: int | Literal["auto"],
    *,
    device: str,
    threads: int,
    memory: float,
    seconds: float,
    start: float = _START_SECONDS,
) -> int:
    """Return how many workers serve a stage: what is set or, for ``auto``, as many as cores, memory and work allow.

    Bytes and cores (`threads`) are those of one worker, `seconds` a guess at what one alone would take: each further
    one is to have more to do than to start (`start` seconds). Of a GPU one worker makes full use.
    """
    if setting != "auto":
        return setting
    if device.split(":")[0] != "cpu":
        return 1
    return max(1, int(min(cores() // threads, available_memory() / memory, seconds / start)))


def expected_workers(config: Config) -> int:
    """Return how many workers a new run will want, as far as is known before the model is read: else one.

    Helpers take as long to load their libraries as this process does, so they are best started first.
    """
    generate = config.generate
    if generate.workers != "auto":
        return generate.workers
    on_cpu = generate.device == "cpu" or (generate.device == "auto" and not _GPU.exists())
    if config.images is not None or config.model not in MODELS or not on_cpu:
        return 1
    return worker_count(
        "auto",
        device="cpu",
        threads=1,
        memory=1.5 * PROCESS_BYTES,
        seconds=_images(config) * config.sampler.steps * IMAGE_STEP,
    )


def result_workers(config: Config, stage: str) -> int:
    """Return how many processes measure a run, or write out its figures: those set, or as many as serve."""
    images, (memory, image_memory, seconds, image_seconds) = _images(config), _RESULTS[stage]
    return worker_count(
        config.generate.workers,
        device="cpu",
        threads=1,
        memory=memory + images * image_memory,
        seconds=seconds + images * image_seconds,
        start=3.0,
    )


def _images(config: Config) -> int:
    return len(config.prompts[: config.limit]) * len(config.seeds) * len(config.indicators)


def require_cluster(config: Config, place: str = "--cluster") -> None:
    """Refuse a cluster where its engine is not installed, or a device that only one machine has."""
    if not config.clustered:
        return
    if importlib.util.find_spec("ray") is None:
        raise UserError(f"{place}: expected Ray, found none installed: {pip_line('cluster')}")
    for field, device in (("generate", config.generate.device), ("observe", config.observe.device)):
        if ":" in device:
            raise UserError(
                f"{field}.device: expected auto, cpu, cuda or mps on a cluster, whose workers see their own GPUs alone,"
                f" got {device}: take its number out"
            )
