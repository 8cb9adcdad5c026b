"""A stage's calls to a cluster, with progress in one line, and what the record of the run keeps of them."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import loop
from probes.execution.cluster.job import Job
from probes.execution.cluster.pending import PartTask
from probes.execution.cluster.pool import Pool
from probes.execution.cluster.worker import PATIENCE, libraries
from probes.execution.part import Part
from probes.runs.parts import clean
from probes.runs.store import Run
from probes.versions import pip_line

NAMED = 5  # parts that failed, in the line about them
RECORD = "cluster"  # of run.json, by stage


def require(config: Config, place: str = "--cluster") -> None:
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


@contextlib.contextmanager
def joined(config: Config, *, progress: bool = True) -> Iterator[ClusterWorkers | None]:
    """Hold the cluster that a configuration asks for; None where it asks for none."""
    options = config.cluster
    require(config)
    if options is None or not config.clustered:
        yield None
        return
    from probes.execution.cluster import on_ray

    with on_ray.connected(options) as where:
        if progress:
            print(where, file=sys.stderr, flush=True)
        kind, room = on_ray.actors(options, on_cpu=config.generate.device == "cpu")
        limit = None if options.workers == "auto" else options.workers
        checks = {"versions": libraries(), "mixed": options.mixed_devices}
        pool = Pool(on_ray.ray, kind, min(room, limit or room), limit, say=_say, **checks)
        try:
            yield ClusterWorkers(pool, progress=progress)
        finally:
            pool.close()


class ClusterWorkers:
    """Workers of a cluster as the stages call them."""

    def __init__(self, pool: Pool, *, progress: bool = True):
        self.pool = pool
        self._progress = progress

    def ask(self, function: str, job: Job, parts: int = 1) -> Any:
        """Return what a worker answers to a stage's question, see :meth:`probes.execution.cluster.pool.Pool.ask`."""
        return self.pool.ask(function, job, parts)

    def make(
        self,
        run: Run,
        stage: str,
        function: str,
        job: Job,
        tasks: Sequence[PartTask],
        images: int,
    ) -> None:
        """Have parts made, and record by whom."""
        if not tasks:
            return
        written: list[PartTask] = []
        with loop.bar_of(stage, images, sum(task.images for task in tasks), progress=self._progress) as bar:

            def made(task: PartTask) -> None:
                written.append(task)
                bar.update(task.images)

            try:
                failed = self.pool.make(function, job, tasks, made, self._shown(bar, stage))
            finally:
                if self.pool.lost.workers:
                    _clear(tasks)
        _require_seen(path for task in written for path in task.paths)
        self._record(run, stage)
        if failed:
            raise _failed(stage, failed)

    def _shown(self, bar: tqdm, stage: str) -> Callable[[], None]:
        """Say beside the bar how many workers there are and what was lost, where it is something else than before."""

        shown = [""]

        def report() -> None:
            ready, lost = self.pool.ready, str(self.pool.lost)
            status = ", ".join([f"{ready} worker{'s' if ready != 1 else ''}", *([lost] if lost else [])])
            if status != shown[0] and not bar.disable:
                shown[0] = status
                bar.set_description_str(f"{stage} ({status})")

        return report

    def _record(self, run: Run, stage: str) -> None:
        self.pool.count_machines()
        lost = self.pool.lost
        entry = {
            "workers": self.pool.most,
            "devices": self.pool.devices,
            "lost": {"workers": lost.workers, "nodes": len(lost.nodes), "parts_again": lost.parts},
        }
        run.write_meta(**{RECORD: {**(run.meta.get(RECORD) or {}), stage: entry}})


def _say(line: str) -> None:
    tqdm.write(line, file=sys.stderr)


def tasks_of(parts: Iterable[Part]) -> list[PartTask]:
    """Parts as the driver of a cluster knows them."""
    return [
        PartTask(part.identity["part"], part.identity["hash"], part.images, tuple(part.paths.values()))
        for part in parts
    ]


def _clear(tasks: Sequence[PartTask]) -> None:
    """Remove what workers that were lost left half written."""
    for folder in {path.parent for task in tasks for path in task.paths}:
        if folder.is_dir():
            clean(folder)


def _require_seen(paths: Iterable[Path]) -> None:
    """Wait until this machine sees what others wrote: a network file system may take a minute."""
    until, expected = time.monotonic() + PATIENCE, [*paths]
    while unseen := {path for path in expected if not path.exists()}:
        if time.monotonic() >= until:
            raise UserError(
                f"{min(unseen)}: expected the file that a worker wrote, found none on this machine: choose an --out on"
                " storage that all machines of the cluster see at the same path"
            )
        time.sleep(0.5)


def _failed(stage: str, failed: dict[int, str]) -> UserError:
    """The line about parts that could not be made, after the traceback of the first."""
    numbers = sorted(failed)
    print(failed[numbers[0]], file=sys.stderr)
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    named = f"{', '.join(map(str, numbers[:NAMED]))}{more}"
    last = failed[numbers[0]].strip().splitlines()[-1]
    return UserError(
        f"{stage}: expected every part, could not make {named} ({last:.160}): all others are there, run the same"
        " command again to try these once more"
    )
