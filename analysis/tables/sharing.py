"""The measure stage in processes: calls that this process and its helpers share (`probes.execution.processes`).

How the work is cut into calls never depends on the number of processes, and what comes back is put in order: so the
number of processes alters no byte. The helpers write nothing; this process alone writes the tables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from probes.execution import workers
from probes.execution.processes import Helpers, Tick
from probes.runs.run import Run

Call = tuple[Any, ...]  # a function of a module, and its arguments after the run


@dataclass(frozen=True)
class Sharing:
    """A run and the processes that share the measuring of it."""

    run: Run
    helpers: Helpers = field(default_factory=Helpers)
    processes: int = 1

    def results(self, calls: Sequence[Call]) -> list[Any]:
        """Return what each call gives, in order: ``function(run, *arguments)``, the same wherever it is made."""
        processes = max(1, min(self.processes, len(calls)))
        threads = max(1, workers.core_count() // processes) if processes > 1 else None
        work = _Measuring(self.run.path, self.run.meta, threads)
        with contextlib.closing(self.helpers.results(work, enumerate(calls), processes)) as results:
            made = dict(results)
        return [made[index] for index in range(len(calls))]


@dataclass(frozen=True)
class _Measuring:
    """The work of a helper: it reads the run by itself."""

    path: Path
    meta: dict[str, Any]
    threads: int | None  # of the BLAS; no result depends on it

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[Call, Tick], Any]]:
        run = Run(self.path, self.meta)
        with threadpool_limits(self.threads):
            yield lambda call, tick: call[0](run, *call[1:])


def cut(number: int, most: int) -> list[slice]:
    """Cut so many things, in order, into at most `most` slices of like length.

    >>> cut(5, 2), cut(2, 4)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None), slice(1, 2, None)])
    """
    width = max(1, -(-number // most))
    return [slice(start, min(start + width, number)) for start in range(0, number, width)]
