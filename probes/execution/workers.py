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
PROCESS_BYTES = 2.5e9  # of the machine's memory, for each process
# images that make a further process worth its start, some 10 s of one core: of the bundled model in 20 steps
EACH = 32
_EACH_MEASURED = 100  # the same where they are measured, in a process that starts in 3 s
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


def total_memory() -> float:
    """Bytes of memory of this machine."""
    if hasattr(os, "sysconf"):
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    return inf


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
    setting: int | Literal["auto"], *, device: str, threads: int, images: float, each: int = EACH
) -> int:
    """Return how many workers serve a stage: what is set or, for ``auto``, as many as cores, memory and work allow.

    `threads`: of one worker; `each`: images for which a further one is worth its start. Each GPU has one.
    """
    if setting != "auto":
        return setting
    if device == "cuda":
        import torch

        kinds = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        return int(max(1, min(kinds.count(kinds[0]) if len({*kinds}) == 1 else 1, images / each)))
    if device.split(":")[0] != "cpu":
        return 1
    return int(max(1, min(cores() // threads, total_memory() / PROCESS_BYTES, images / each)))


def expected_workers(config: Config) -> int:
    """Return how many workers a new run will want, as far as is known before the model is read: else one.

    Helpers take as long to load their libraries as this process does, so they are best started first.
    """
    generate = config.generate
    on_cpu = generate.device == "cpu" or (generate.device == "auto" and not _GPU.exists())
    known = config.images is None and config.model in MODELS and on_cpu
    return worker_count(generate.workers, device="cpu", threads=1, images=_images(config) if known else 0)


def result_workers(config: Config, stage: str) -> int:
    """Return how many processes measure a run, or write out its figures: those set, or as many as serve."""
    images, each = (_images(config), _EACH_MEASURED) if stage == "measure" else (inf, 1)
    return worker_count(config.generate.workers, device="cpu", threads=1, images=images, each=each)


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
