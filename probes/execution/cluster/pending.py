"""The parts of a stage that workers of a cluster are still to make."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Parts that a worker has, the one it is at included.
AHEAD = 2


@dataclass(frozen=True)
class PartTask:
    """A part of a run as the driver knows it: its number, the hash of its identity, its images and its files."""

    number: int
    identity: str
    images: int
    paths: tuple[Path, ...] = ()


@dataclass
class StageParts:
    """The parts of a stage that are still to be made, and what befell some of them."""

    function: str  # what opens the stage in a worker, given the job
    job: Any
    todo: deque[PartTask]  # those that no worker has
    made: Callable[[PartTask], None]  # told each part that is there
    failures: Counter[int] = field(default_factory=Counter)  # attempts that raised an error, by part
    losses: Counter[int] = field(default_factory=Counter)  # workers that were lost at a part
    failed: dict[int, str] = field(default_factory=dict)  # parts that could not be made, and why
    memory: MemoryError | None = None  # a device had no room for a batch
