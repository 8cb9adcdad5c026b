"""The observe stage: show every stored image to the observers and store what they saw, part by part.

What an observer stores of ``samples/part-N`` is made from that file and nothing else, so it carries its digest and all
that alters what is seen. A run that was interrupted goes on at the first part that is missing and ends with the same
bytes. An image that cannot be read, or was at fault when it was drawn, is shown as such: recorded, skipped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.observe.features.attribute_audit import places
from analysis.observe.observer import KEY, Observer, StoredImage
from analysis.observe.registry import observers, why_not
from probes.errors import UserError
from probes.execution import loop, shards, workers
from probes.execution.cluster.driver import ClusterWorkers
from probes.execution.cluster.job import Job
from probes.execution.cluster.pool import PartTask
from probes.execution.part import Part, Piece, RowsOfKind
from probes.execution.team import Team, Tick
from probes.runs import image_faults, kinds, parts
from probes.runs.images import read_image
from probes.runs.selection import KINDS
from probes.runs.store import Run
from probes.storage import locations

_REMOTE = "analysis.observe.remote"  # what a worker of a cluster does
# seconds of one core an image takes, about, and a parameter of the model: measured with toyworld's detectors
READ, PARAMETER = 0.003, 5e-8
RowRange = tuple[Path, int, int]  # of a file of samples: the first, and the one after the last


@dataclass(frozen=True)
class Looking:
    """Shows images to an observer (:class:`probes.execution.team.Work`)."""

    observer: Observer
    threads: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[RowRange, Tick], Piece]]:
        """Load the observer; gives the function that shows it some rows of a file."""
        with workers.deterministic(self.threads):
            yield self.loaded()

    def loaded(self) -> Callable[[RowRange, Tick], Piece]:
        """As `opened`, for who sees to the threads."""
        self.observer.load()
        return partial(_shown, self.observer, lru_cache(maxsize=1)(_Stored.of))


def observe(
    run: Run, *, progress: bool = True, team: Team | None = None, cluster: ClusterWorkers | None = None
) -> str:
    """Observe every image of a run, held by :func:`probes.storage.claim.claim`, that was not observed yet.

    Returns why nothing was observed; empty where it was. Why some observers did not look stands in the record, by name,
    as ``not_observed``. `team`: processes that are there already and may help; `cluster`: workers on other machines
    that look in their place.
    """
    chosen, missing = observers(run.config)
    if not run.parts("samples"):  # of a shard whose parts are not drawn
        return ""
    with nullcontext(team) if team else Team() as team:
        for observer in chosen:
            note_kinds(run, observer)
            if cluster:
                _observe_on_cluster(run, observer, cluster)
            else:
                _observe(run, observer, team, progress)
    if places(run.config) and shards.holds(run, 0):
        from analysis.observe.features.texts import embed_texts

        embed_texts(run, chosen)
    if run.meta.get("not_observed", {}) != missing:
        run.write_meta(not_observed=missing)
    return "" if chosen else "; ".join(why_not(missing))


def note_kinds(run: Run, observer: Observer) -> None:
    """Record, before the first part of an observer is written, which kinds the run is to have."""
    if isinstance(count := run.meta.get("parts"), int):
        noted = kinds.with_kinds(run, observer.schemas, count)
        if noted != run.meta.get(KINDS):
            run.write_meta(**{KINDS: noted})


def _observe(run: Run, observer: Observer, team: Team, progress: bool) -> None:
    """Let one observer look."""
    all_parts, todo, damaged = planned(run, observer)
    loop.note_damaged(run, damaged)
    needs, threads = observer.needs(), threads_of(observer)
    worker_number = workers.worker_count(
        run.config.generate.workers,
        device=needs.device,
        threads=threads,
        memory=workers.PROCESS_BYTES + 8.0 * needs.parameters,
        seconds=(READ + PARAMETER * needs.parameters) * sum(part.images for part in todo),
    )
    count = loop.useful_workers(worker_number, todo)
    looking = Looking(observer, threads)
    stage = f"observe {observer.name}"
    loop.make(stage, all_parts, todo, looking, team, processes=count, progress=progress)
    note(run, observer.resolved, observer.record(run), threads, count)


def _observe_on_cluster(run: Run, observer: Observer, cluster: ClusterWorkers) -> None:
    """Let one observer look, in the workers of a cluster.

    A worker plans the parts: what is stored hangs on the device that looks, and this machine may have another.
    """
    options = {"observer": observer.name, "kinds": list(observer.schemas)}
    plan = cluster.ask(f"{_REMOTE}:planned", Job.of(run, **options), len(run.parts("samples")))
    loop.note_damaged(run, [parts.DamagedPartError(line) for line in plan["damaged"]])
    options["threads"] = plan["threads"]
    pending = [
        PartTask(number, identity, images, tuple(run.part_path(kind, number) for kind in observer.schemas))
        for number, identity, images in plan["pending"]
    ]
    stage, job = f"observe {observer.name}", Job.of(run, **options)
    cluster.make(run, stage, f"{_REMOTE}:opened", job, pending, plan["images"])
    record = cluster.ask(f"{_REMOTE}:recorded", Job.of(run, **options))
    note(run, plan["resolved"], record, plan["threads"], cluster.pool.expected)


def planned(run: Run, observer: Observer) -> tuple[list[Part], list[Part], list[parts.DamagedPartError]]:
    """All parts of an observer, pending ones, and damaged ones."""
    fields = observer.fields()
    all_parts = [part_of(run, observer, file, fields) for file in run.parts("samples")]
    damaged: list[parts.DamagedPartError] = []
    return all_parts, loop.pending(all_parts, refused, damaged.append), damaged


def threads_of(observer: Observer) -> int:
    """Threads that torch is given."""
    needs = observer.needs()
    return workers.threads(needs.parameters, needs.device)


def note(run: Run, resolved: Mapping[str, Any], record: Mapping[str, Any], threads: int, count: int) -> None:
    """Record that an observer has looked, with so many threads in each of so many workers."""
    before = run.resolved
    resolved_configuration = {**before, "observe": {**before.get("observe", {}), **resolved}}
    config = {**run.meta["config"], "resolved": resolved_configuration}
    entries = {key: {**entry, "threads": threads, "workers": count} for key, entry in record.items()}
    run.write_meta(config=config, **entries)


def part_of(run: Run, observer: Observer, file: Path, fields: Mapping[str, Any]) -> Part:
    """Return what an observer makes of a part file of samples."""
    number = int(re.fullmatch(r"part-(\d+)", file.stem)[1])
    with locations.once(file):
        draws = parts.read_part(file, ["triplet", "seed"])
        made_from = parts.read_identity(file)
    images = len(draws)
    # tables made elsewhere carry no digest of their columns
    samples = parts.digest(repr(made_from["content"]) if "content" in made_from else file.read_bytes())
    starts = _whole(draws, observer.batch) if observer.whole_triplets else range(0, images, observer.batch)
    starts = list(starts) or [0]  # a part without images is written, too
    return Part(
        paths={kind: run.part_path(kind, number) for kind in observer.schemas},
        identity=parts.identity(number, {**fields, "samples": samples}, parts.OBSERVED_FORMAT),
        images=images,
        pieces=[(file, start, stop) for start, stop in pairwise([*starts, images])],
    )


def _whole(draws: pa.Table, batch: int) -> list[int]:
    """First rows of pieces of at least `batch` images, or of what is left, none of which divides a triplet and seed.

    Where those of one do not stand together all rows are one piece.
    """
    keys = list(zip(*(draws[name].to_pylist() for name in ("triplet", "seed"))))
    first = [row for row, key in enumerate(keys) if not row or key != keys[row - 1]]
    if len(first) > len({*keys}):
        return [0]
    starts: list[int] = []
    for row in first:
        if not starts or row - starts[-1] >= batch:
            starts.append(row)
    return starts


def refused(path: Path, field: str, old: Any, new: Any) -> UserError:
    """Return the error for a part that was observed otherwise."""
    return UserError(
        f"{path}: was made with {field} {_short(old)}, expected {_short(new)}: use"
        " --stage observe --overwrite to observe the images anew, or another --out"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class _Stored:
    """A part file of samples, and the prompts of each triplet and seed in it."""

    table: pa.Table
    prompts: Mapping[tuple[int, int], tuple[str, ...]]

    @classmethod
    def of(cls, file: Path) -> _Stored:
        with locations.once(file, whole=True):
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
        prompt = row["prompt"]
        others = tuple(text for text in self.prompts[row["triplet"], row["seed"]] if text != prompt)
        shown = partial(StoredImage, {name: row[name] for name in KEY}, prompt, others=others)
        # of one that cannot be read it is said why
        if row.get("fault") not in (None, image_faults.UNREADABLE):
            return shown(pixels=None, fault=image_faults.reason(row["fault"]))
        try:
            return shown(pixels=np.asarray(read_image((row["image"] or {}).get("bytes"))))
        except ValueError as error:
            return shown(pixels=None, fault=str(error))


def _shown(observer: Observer, stored: Callable[[Path], _Stored], piece: RowRange, tick: Tick) -> Piece:
    """Show an observer some rows of a file; gives the rows it makes of them."""
    file, start, stop = piece
    images = stored(file).images(start, stop)
    seen = observer.observe(images)
    tick(len(images))
    return {kind: RowsOfKind(seen[kind], schema) for kind, schema in observer.schemas.items()}
