"""The parts of the observe stage as a worker of a cluster plans them, and finds them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from analysis.observe import stage
from analysis.observe.observer import Observer
from analysis.observe.registry import observers
from probes.errors import UserError
from probes.execution.cluster.job import Job
from probes.execution.cluster.worker import Making
from probes.execution.part import Part
from probes.runs.run import Run


def planned(job: Job) -> dict[str, Any]:
    """All images, pending parts, damaged ones, threads, and what is resolved of the configuration."""
    run, observer = _found(job)
    every, pending, damaged = stage.planned(run, observer)
    return {
        "images": sum(part.images for part in every),
        "pending": [(part.identity["part"], part.identity["hash"], part.images) for part in pending],
        "damaged": [str(one) for one in damaged],
        "threads": stage.threads_of(observer),
        "resolved": dict(observer.resolved),
    }


def recorded(job: Job) -> dict[str, Any]:
    """Return what ``run.json`` keeps of an observer that has looked."""
    run, observer = _found(job)
    return dict(observer.record(run))


@contextmanager
def opened(job: Job) -> Iterator[Making]:
    """Hold an observer, ready to observe the images of parts."""
    run, observer = _found(job)
    fields = observer.fields()

    def part(number: int) -> Part:
        return stage.part_of(run, observer, run.part_path("samples", number), fields)

    with stage.Looking(observer, job.settings["threads"]).opened() as do:
        yield Making(part, do, observer.needs().device)


def _found(job: Job) -> tuple[Run, Observer]:
    run = Run.open(job.run)
    chosen, missing = observers(run.config)
    name = job.settings["observer"]
    for observer in chosen:
        if list(observer.schemas) == job.settings["kinds"]:
            return run, observer
    raise UserError(
        f"observe {name}: expected it to look on all machines of the cluster, found that it cannot:"
        f" {missing.get(name, 'it is not asked for')}"
    )
