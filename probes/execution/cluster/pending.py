"""The parts of a stage that workers of a cluster are still to make, and which of them is handed out next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

# Parts that a worker has, the one it is at included; where parts are made in order, how far a worker leads at most.
AHEAD = 2


@dataclass(frozen=True)
class PartTask:
    """A part of a run as the driver knows it: its number, the hash of its identity, its images and its files."""

    number: int
    identity: str
    images: int
    paths: tuple[Path, ...] = ()


class WorkerWithParts(Protocol):
    """Whether a worker is ready, and the parts that it has."""

    ready: bool
    parts: deque[PartTask]


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
        Told each part that is there; returns whether no others are wanted.
    places : mapping, optional
        Places of parts by number, where they are made in this order.
    ended : bool
        Nothing is handed out any more.
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
    made: Callable[[PartTask], bool | None]
    places: Mapping[int, int] | None = None
    ended: bool = False
    failures: Counter[int] = field(default_factory=Counter)
    losses: Counter[int] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    memory: MemoryError | None = None

    def left(self, workers: Sequence[WorkerWithParts]) -> int:
        """Return how many parts are still to come."""
        if self.ended:
            self.todo.clear()
        return len(self.todo) + sum(len(worker.parts) for worker in workers)

    def has_next(self, workers: Sequence[WorkerWithParts]) -> bool:
        """Return whether a part can be handed out: in their order, none far from the first that is missing."""
        if self.places is None or not self.todo:
            return bool(self.todo)
        places = self.places
        self.todo = deque(sorted(self.todo, key=lambda task: places[task.number]))
        held = [task for worker in workers for task in worker.parts]
        first = min(places[task.number] for task in (self.todo[0], *held))
        return places[self.todo[0].number] < first + AHEAD * sum(worker.ready for worker in workers)
