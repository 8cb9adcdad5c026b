"""The measure stage in processes: pieces of its work, shared out on one machine (`probes.execution.processes`).

How the work is cut into pieces never depends on the number of processes, and what comes back is put in order: so the
number of processes alters no byte. The helpers write nothing; this process alone writes the tables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from probes.execution import workers
from probes.execution.processes import Helpers, Tick
from probes.runs.run import Run

KEPT_BYTES = 2**25 - 2**16  # no result depends on it


@dataclass(frozen=True)
class Piece:
    """A call that gives the same wherever it is made; all of it can be pickled.

    A helper knows the function by name, so it belongs to a module; ``of_run``: it is given the run before the
    arguments.
    """

    function: Callable[..., Any]
    arguments: tuple = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    of_run: bool = False

    def done(self, run: Run) -> Any:
        """Make the call."""
        return self.function(*((run,) if self.of_run else ()), *self.arguments, **self.options)


@dataclass(frozen=True)
class Sharing:
    """A run and the processes that share the measuring of it."""

    run: Run
    helpers: Helpers = field(default_factory=Helpers)
    processes: int = 1

    def results(self, pieces: Sequence[Piece]) -> list[Any]:
        """Return what each piece gives, in order."""
        processes = max(1, min(self.processes, len(pieces)))
        threads = max(1, workers.core_count() // processes) if processes > 1 else None
        work = _Measuring(self.run.path, self.run.meta, threads)
        with contextlib.closing(self.helpers.results(work, enumerate(pieces), processes)) as results:
            made = dict(results)
        return [made[place] for place in range(len(pieces))]


@dataclass(frozen=True)
class _Measuring:
    """The work of a helper: it reads the run by itself."""

    path: Path
    meta: dict[str, Any]
    threads: int | None  # of the BLAS; no result depends on it

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Piece, Tick], Any]]:
        run = Run(self.path, self.meta)
        # glibc gives large arrays back to the system, to be cleared page by page the next time, until it has seen one
        # freed that is as large: mallopt(3), M_MMAP_THRESHOLD, at most 32 MiB
        np.empty(KEPT_BYTES, np.uint8)
        with threadpool_limits(self.threads):
            yield lambda piece, tick: piece.done(run)


def cut(number: int, most: int) -> list[slice]:
    """Cut so many things, in order, into at most `most` slices of like length.

    >>> cut(5, 2), cut(2, 4)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None), slice(1, 2, None)])
    """
    width = max(1, -(-number // most))
    return [slice(start, min(start + width, number)) for start in range(0, number, width)]
