"""The observe stage: show every stored image to the observers and store what they saw, part by part.

What an observer stores of ``samples/part-N`` is made from that file and nothing else, so it carries the hash of what
that was made from, and all that alters what is seen. A run that was interrupted goes on at the first part that is
missing and ends with the same bytes. An image that cannot be read, or was at fault when it was drawn, is shown as such:
recorded, skipped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from analysis.observe.features.attribute_audit import places
from analysis.observe.observer import KEY, Observer, StoredImage
from analysis.observe.registry import observers, why_not
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import loop, workers
from probes.execution.loop import Part, RowsByKind, RowsOfKind, StageCall
from probes.execution.processes import Helpers, Tick
from probes.models.weights import deterministic
from probes.runs import parts
from probes.runs.images import UNREADABLE, fault_reason, read_image
from probes.runs.record import KINDS
from probes.runs.run import Run

if TYPE_CHECKING:
    from probes.execution.on_ray import RayWorkers


@dataclass(frozen=True)
class RowRange:
    """Rows of a part file of samples, from the first to the one before `stop`."""

    file: Path
    start: int
    stop: int
    stored: _Stored | None = None  # its content, where it is to be had without the file


@dataclass(frozen=True)
class Observation:
    """Shows images to an observer (:class:`probes.execution.processes.Work`).

    Another process makes the observer anew: another machine may have another device, and its models elsewhere.
    """

    config: Config
    observer: Observer

    def __reduce__(self) -> tuple[Any, ...]:
        return _observation_on_this_machine, (self.config, [*self.observer.schemas])

    @property
    def device(self) -> str:
        """The kind of device that the observer is on."""
        return self.observer.device_type

    @cached_property
    def threads(self) -> int:
        """Threads of torch."""
        return workers.thread_count(self.observer.parameters, self.device)

    def facts(self) -> tuple[dict[str, Any], int, int, dict[str, Any]]:
        """Fields, batch, threads and what was resolved, as they are on this machine."""
        observer = self.observer
        return observer.fields(), observer.batch, self.threads, dict(observer.resolved)

    @contextmanager
    def opened(self) -> Iterator[Callable[[RowRange, Tick], RowsByKind]]:
        """Load the observer; gives the function that shows it some rows of a file."""
        with deterministic(self.threads):
            self.observer.load()
            yield partial(_observe_rows, self.observer, lru_cache(maxsize=1)(_Stored.of))

    def carried(self, pieces: Sequence[RowRange]) -> list[RowRange]:
        """Pieces of a part with the images in them, for a machine that may not see the file."""
        stored = _Stored.of(pieces[0].file)
        return [replace(piece, stored=stored) for piece in pieces]


def _observation_on_this_machine(config: Config, kinds: Sequence[str]) -> Observation:
    chosen, missing = observers(config)
    for observer in chosen:
        if list(observer.schemas) == list(kinds):
            return Observation(config, observer)
    raise UserError(
        f"observe {kinds[0]}: expected it to look on all machines of the cluster, found that it cannot:"
        f" {missing.get(kinds[0], 'it is not asked for')}"
    )


def observe(
    run: Run, *, progress: bool = True, helpers: Helpers | None = None, cluster: RayWorkers | None = None
) -> str:
    """Observe every image of a run, see :func:`probes.runs.directory.claim`, that was not observed yet.

    Returns why nothing was observed; empty where it was. Why some observers did not look stands in the record, by name,
    as ``not_observed``. `helpers`: processes that are there already and may help; `cluster`: workers on other machines
    that look in their place.
    """
    chosen, missing = observers(run.config)
    with nullcontext(helpers) if helpers else Helpers() as helpers:
        command = StageCall(progress=progress, helpers=helpers, cluster=cluster)
        config = run.config  # in which a first observer settles what the file leaves open
        for observer in chosen:
            _record_kinds(run, observer)
            _observe(run, Observation(config, observer), command)
    if places(run.config):
        from analysis.observe.features.texts import embed_texts

        embed_texts(run, chosen)
    if run.meta.get("not_observed", {}) != missing:
        run.write_meta(not_observed=missing)
    return "" if chosen else "; ".join(why_not(missing))


def _record_kinds(run: Run, observer: Observer) -> None:
    """Record, before the first part of an observer is written, which kinds the run is to have."""
    if isinstance(count := run.meta.get("parts"), int):
        kinds = run.updated_part_counts(observer.schemas, count)
        if kinds != run.meta.get(KINDS):
            run.write_meta(**{KINDS: kinds})


def _observe(run: Run, work: Observation, command: StageCall) -> None:
    """Let one observer look."""
    observer = work.observer
    # what is stored hangs on the device that looks, and this machine may have another than a worker of the cluster
    fields, batch, threads, resolved = command.run_function(Observation.facts, work)
    all_parts = [_part(run, observer, file, fields, batch) for file in run.parts("samples")]
    todo, damaged = loop.unfinished_parts(all_parts, refused)
    loop.report_damaged(run, damaged)
    count = command.count_workers(run.config, todo, work)
    loop.make_parts(run, f"observe {observer.name}", all_parts, todo, work, command, count)
    resolved_config = {**run.resolved, "observe": {**run.resolved.get("observe", {}), **resolved}}
    config = {**run.meta["config"], "resolved": resolved_config}
    entries = {
        key: {**entry, "threads": threads, "workers": count} for key, entry in observer.record(run).items()
    }
    run.write_meta(config=config, **entries)


def _part(run: Run, observer: Observer, file: Path, fields: dict[str, Any], batch: int) -> Part:
    """What an observer makes of a part file of samples."""
    number = int(re.fullmatch(r"part-(\d+)", file.stem)[1])
    rows = parts.read_part(file, ["triplet", "seed"])
    fields = {**fields, "samples": parts.source_hash(parts.read_identity(file))}
    starts = _starts_of_triplets(rows, batch) if observer.whole_triplets else range(0, len(rows), batch)
    starts = list(starts) or [0]  # a part without images is written, too
    return Part(
        paths={kind: run.part_path(kind, number) for kind in observer.schemas},
        identity=parts.identity(number, fields, parts.OBSERVED_FORMAT),
        images=len(rows),
        pieces=[RowRange(file, start, stop) for start, stop in pairwise([*starts, len(rows)])],
    )


def _starts_of_triplets(rows: pa.Table, batch: int) -> list[int]:
    """First rows of pieces of at least `batch` images, or of what is left, none of which divides a triplet and seed.

    Where those of one do not stand together all rows are one piece.
    """
    keys = list(zip(*(rows[name].to_pylist() for name in ("triplet", "seed"))))
    first = [row for row, key in enumerate(keys) if not row or key != keys[row - 1]]
    if len(first) > len({*keys}):
        return [0]
    starts: list[int] = []
    for row in first:
        if not starts or row - starts[-1] >= batch:
            starts.append(row)
    return starts


def refused(path: Path, field: str, old: Any, new: Any) -> UserError:
    """Error for a part that was observed otherwise."""
    return UserError(
        f"{path}: was made with {field} {old!r:.60}, expected {new!r:.60}: use"
        " --stage observe --overwrite to observe the images anew, or another --out"
    )


@dataclass(frozen=True)
class _Stored:
    """A part file of samples, and the prompts of each triplet and seed in it."""

    table: pa.Table
    prompts: Mapping[tuple[int, int], tuple[str, ...]]

    @classmethod
    def of(cls, file: Path) -> _Stored:
        table = parts.read_part(file, [*KEY, "prompt", "image", "fault"])
        prompts: dict[tuple[int, int], dict[str, None]] = {}
        for triplet, seed, prompt in zip(
            *(table[name].to_pylist() for name in ("triplet", "seed", "prompt"))
        ):
            prompts.setdefault((triplet, seed), {})[prompt] = None
        return cls(table, {draw: tuple(texts) for draw, texts in prompts.items()})

    def images(self, start: int, stop: int) -> list[StoredImage]:
        """The images of some rows."""
        return [self._image(row) for row in self.table.slice(start, stop - start).to_pylist()]

    def _image(self, row: Mapping[str, Any]) -> StoredImage:
        prompt, pixels, fault = row["prompt"], None, ""
        others = tuple(text for text in self.prompts[row["triplet"], row["seed"]] if text != prompt)
        if row.get("fault") not in (None, UNREADABLE):
            fault = fault_reason(row["fault"])
        else:  # of one that cannot be read it is said why
            try:
                pixels = np.asarray(read_image((row["image"] or {}).get("bytes")))
            except ValueError as error:
                fault = str(error)
        return StoredImage({name: row[name] for name in KEY}, prompt, pixels, fault, others)


def _observe_rows(
    observer: Observer, stored: Callable[[Path], _Stored], piece: RowRange, tick: Tick
) -> RowsByKind:
    """Show an observer some rows of a file; gives the rows it makes of them."""
    images = (piece.stored or stored(piece.file)).images(piece.start, piece.stop)
    rows = observer.observe(images)
    tick(len(images))
    return {kind: RowsOfKind(rows[kind], schema) for kind, schema in observer.schemas.items()}
