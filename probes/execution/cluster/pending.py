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
    """The parts of a stage that are still to be made, and what befell some of them.

    Attributes
    ----------
    function, job
        What opens the stage in a worker.
    todo : deque of PartTask
        Those that no worker has.
    made : callable
        Told each part that is there.
    failures, losses : Counter
        By part: attempts that raised an error, and workers that were lost at it.
    failed : dict of int to str
        Parts that could not be made, and why.
    memory : MemoryError, optional
        A device had no room for a batch.
    """

    function: str
    job: Any
    todo: deque[PartTask]
    made: Callable[[PartTask], None]
    failures: Counter[int] = field(default_factory=Counter)
    losses: Counter[int] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    memory: MemoryError | None = None
