"""A stage for tests and benchmarks of a cluster that needs no model: parts of a row, or of nothing, after a while."""

import contextlib
import os
import time
from pathlib import Path

import pyarrow as pa

from probes.execution.cluster.job import Job
from probes.execution.cluster.pending import PartTask
from probes.execution.cluster.worker import Making
from probes.execution.part import Part, RowsOfKind
from probes.runs import parts

HERE = "tests.probes.execution.cluster.light_stage"
_SCHEMA = pa.schema([("number", pa.int64())])


def part_of(folder: Path | None, number: int) -> Part:
    """A part with one file, or without any."""
    paths = {"light": folder / f"part-{number:05d}.parquet"} if folder else {}
    return Part(paths, parts.identity(number, {"light": number}), 1, [number])


def task_of(folder: Path | None, number: int) -> PartTask:
    """The same as the driver knows it."""
    part = part_of(folder, number)
    return PartTask(number, part.identity["hash"], 1, tuple(part.paths.values()))


def job(folder: Path | None, seconds: float) -> Job:
    """The stage over a folder, each of whose parts takes so long."""
    return Job(str(folder or ""), os.getcwd(), None, {}, {}, {"seconds": seconds})


@contextlib.contextmanager
def opened(job: Job):
    """What a worker does."""
    folder, seconds = Path(job.run) if job.run else None, job.settings["seconds"]

    def do(piece, tick):
        time.sleep(seconds)
        return {"light": RowsOfKind([{"number": piece}], _SCHEMA)}

    yield Making(lambda number: part_of(folder, number), do, "none")
