"""The parts of a stage, and the one loop over them: each that has no file is made under a lock, and written whole.

Any number of processes may go through the same parts: the same command started again, here or on another machine that
sees the folder. A part is a function of its identity, so two that make one are harmless, and a lock saves the work. A
part that another process is at is waited for. Within a process the pieces of parts (batches) are shared out in order
among helpers (`probes.execution.processes`), or whole parts among workers of Ray (`probes.execution.on_ray`); how a
part is cut never depends on their number, so it alters no byte.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.processes import Helpers, Tick, Work
from probes.execution.workers import worker_count
from probes.locks import locked, require_not_removed
from probes.runs import directory
from probes.runs import parts as files
from probes.runs.images import fault_counts
from probes.runs.record import REGISTERED, first_difference, versions
from probes.runs.run import Run

PAUSE = 0.5  # seconds until a part that another process is at is looked at again
_LAYOUT = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} images [{elapsed}, {remaining} left]"


@dataclass(frozen=True)
class RowsOfKind:
    """The table rows of one kind of file (such as samples) from one piece of a part, and their schema."""

    rows: list[dict[str, Any]]
    schema: pa.Schema
    batch: int | None = None  # so many at a time, where the device had no room for as many as planned


RowsByKind = Mapping[str, RowsOfKind]  # by kind
MismatchError = Callable[[Path, str, Any, Any], UserError]


@dataclass(frozen=True)
class Part:
    """A part of a stage: a set of files, one per kind, whose content depends on its `identity` alone."""

    # its files by kind, in the order they are written; it is finished when all are there
    paths: Mapping[str, Path]
    identity: Mapping[str, Any]  # what it is made from (:func:`probes.runs.parts.identity`)
    images: int  # images in it
    pieces: Sequence[Any]  # what the work of the stage is given one by one; each gives a `RowsByKind`

    def file_contents(self, results: Sequence[RowsByKind]) -> Iterator[tuple[str, memoryview]]:
        """Yield (kind, Parquet bytes) of each file of the part, from the `results` of all its pieces."""
        for kind in self.paths:
            rows = [row for result in results for row in result[kind].rows]
            halved = [batch for result in results if (batch := result[kind].batch)]
            identity = {**self.identity, **({"batch": min(halved)} if halved else {})}
            yield kind, files.part_bytes(rows, results[-1][kind].schema, identity)


@dataclass(frozen=True)
class StageCall:
    """How a stage that stores images is called: configuration as passed, overwriting, progress bar, workers."""

    passed: Mapping[str, Any] | None = None  # the configuration as it was passed, for `run.json`
    text: str = ""  # the same as a file, for the copy of `triplets.yaml`; empty: that is there
    overwrite: bool = False  # remove what the directory holds, once the work can begin
    progress: bool = True  # show a progress bar with the time left
    # what the record keeps of the captions that prompts come from, see `probes.stages.captions`
    captions: Mapping[str, Any] | None = None
    helpers: Helpers = field(default_factory=Helpers)  # processes of this machine
    cluster: Any = None  # `probes.execution.on_ray.RayWorkers` that make the parts in their place
    # what the record keeps of the question that ends the run (`analysis.methods.stopping`)
    question: Mapping[str, Any] | None = None

    def run_function(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``function(*arguments)``, computed by a worker of the cluster if there is one, else here."""
        return self.cluster.run_function(function, *arguments) if self.cluster else function(*arguments)

    def count_workers(self, config: Config, todo: Sequence[Part], work: Any) -> int:
        """Return how many workers make the `todo` parts: the cluster's, or as configured, at most one per piece."""
        if self.cluster:
            return self.cluster.available_workers()
        images = sum(part.images for part in todo)
        setting, device = config.generate.workers, work.device
        wanted = worker_count(setting, device=device, threads=work.threads, images=images)
        return max(1, min(wanted, sum(len(part.pieces) for part in todo)))

    def write_record(
        self, run: Run, config: Config, damaged: Sequence[files.DamagedPartError], **fields: Any
    ) -> None:
        """Write ``run.json`` and the copy of ``triplets.yaml``, and report damaged parts, before parts are made."""
        run.write_meta(
            format=files.FORMAT,
            status="planned",
            name=config.name,
            config={"passed": dict(self.passed or {}), "resolved": config.resolved()},
            versions=versions(),
            **({"captions": self.captions} if self.captions else {}),
            **fields,
            **({REGISTERED: self.question} if self.question else {}),
            times={"created": run.meta.get("times", {}).get("created") or directory.now()},
        )
        if self.text:
            files.write_bytes(run.path / "triplets.yaml", self.text.encode())
        report_damaged(run, damaged)


def unfinished_parts(
    parts: Sequence[Part], mismatch_error: MismatchError
) -> tuple[list[Part], list[files.DamagedPartError]]:
    """Return the parts of which a file is missing or damaged, and the errors of the damaged files.

    For a file of another identity raises ``mismatch_error(path, field, value, expected)``, of the first such field.
    """
    todo, damaged = list[Part](), list[files.DamagedPartError]()
    for part in parts:
        missing = False
        for path in part.paths.values():
            try:
                missing |= not path.exists()
                if path.exists():
                    there, wanted = files.read_identity(path), part.identity
                    if any(there.get(name) != wanted[name] for name in ("format", "hash")):
                        old, new = (
                            {"format": one.get("format"), **one["fields"], "hash": one["hash"]}
                            for one in (there, wanted)
                        )
                        name = first_difference(old, new) or "hash"
                        raise mismatch_error(path, name, old.get(name), new.get(name))
                    files.read_part(path)
            except files.DamagedPartError as error:
                missing = True
                damaged.append(error)
        todo += [part] if missing else []
    return todo, damaged


def record_generated(run: Run, began: float) -> None:
    """Record that a run's images are generated, counts of faulty ones, and the seconds since `began`."""
    faults = fault_counts(list(run.faults().values()))
    directory.record_stage(run, "generated", monotonic() - began, faults=faults)


def report_damaged(run: Run, damaged: Sequence[files.DamagedPartError]) -> None:
    """Print which parts were damaged and will be made again, and record it in ``run.json``."""
    lines = [str(error).partition(": run --stage")[0] for error in damaged]
    if lines:
        entries = [{"found": line.removeprefix(f"{run.path}/"), "at": directory.now()} for line in lines]
        run.write_meta(made_again=[*(run.meta.get("made_again") or []), *entries])
    for line in lines:
        print(f"{line}: made again", file=sys.stderr)


def make_parts(
    run: Run,
    stage: str,
    parts: Sequence[Part],
    todo: Sequence[Part],
    work: Work,
    command: StageCall,
    workers: int = 1,
) -> None:
    """Make the unfinished parts (`todo`) of a stage and write their files, with `workers` processes or by Ray."""
    total, left = (sum(part.images for part in some) for some in (parts, todo))
    several = f" ({workers} workers)" if workers > 1 and not command.cluster else ""
    with tqdm(
        total=total,
        initial=total - left,
        desc=f"{stage}{several}",
        disable=not command.progress,
        bar_format=_LAYOUT,
        mininterval=0.5,
    ) as bar:

        def advance(images: float) -> None:
            """Move the progress bar by this many images."""
            bar.update(min(images, total - bar.n))  # beyond its end the bar would have none

        while todo:
            elsewhere, locks = list[Part](), dict[int, ExitStack]()
            with ExitStack() as stack:
                due = _lock_parts(todo, stack, locks, elsewhere)
                if command.cluster:
                    made = command.cluster.make_parts(run, stage, due, work, advance)
                else:
                    made = _make_in_processes(command.helpers, due, work, workers, advance)
                with closing(made):
                    for part, content in made:
                        for kind, data in content:
                            files.write_bytes(part.paths[kind], data)
                        locks.pop(id(part)).close()
            if elsewhere:
                time.sleep(PAUSE)
            todo = elsewhere
        advance(total - bar.n)  # what others made


def _lock_parts(
    todo: Sequence[Part], stack: ExitStack, locks: dict[int, ExitStack], elsewhere: list[Part]
) -> Iterator[Part]:
    """Yield each part of `todo` that is unfinished, locked; parts that others have locked go into `elsewhere`."""
    for part in todo:
        first = next(iter(part.paths.values()))
        lock = first.with_name(f"{first.name}.lock")
        require_not_removed(lock)
        locks[id(part)] = stack.enter_context(ExitStack())
        if not locks[id(part)].enter_context(locked(lock, wait=False, remove=True)):
            elsewhere.append(part)
            continue
        with suppress(UserError):  # of another run, or of another program: it is replaced
            if not unfinished_parts([part], lambda path, *found: UserError(str(path)))[0]:
                locks.pop(id(part)).close()
                continue
        yield part


def _make_in_processes(
    helpers: Helpers, parts: Iterable[Part], work: Work, workers: int, tick: Tick
) -> Iterator[tuple[Part, Iterator[tuple[str, memoryview]]]]:
    """Yield each part, with (kind, Parquet bytes) of its files, when processes of this machine have made it."""
    made = dict[int, dict[int, RowsByKind]]()
    pieces = (((part, index), piece) for part in parts for index, piece in enumerate(part.pieces))
    with closing(helpers.results(work, pieces, workers, tick)) as results:
        for (part, index), piece in results:
            done = made.setdefault(id(part), {})
            done[index] = piece
            if len(done) == len(part.pieces):
                yield part, part.file_contents([piece for _, piece in sorted(made.pop(id(part)).items())])
