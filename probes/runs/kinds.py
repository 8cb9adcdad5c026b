"""Which parts a run is to have: kinds of parts, how many of each, by what its record says; and which it owns."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from probes.runs.parts import part_files, part_name
from probes.runs.record import no_record
from probes.runs.selection import BESIDE_SAMPLES, DRAWN, KINDS, NESTED, OBJECTS, TEXTS, TRACED, UNMEASURED

if TYPE_CHECKING:
    from probes.runs.store import Run

_KIND = re.compile(r"[a-z]+|(?:features|attributes)/\w[\w.-]*")
MOST = 1_000_000  # parts of a kind: a record that says more is damaged


def kinds(run: Run) -> dict[str, int]:
    """How many parts of each kind a run is to have, by its record; nothing where that does not say how many.

    Runs of earlier versions say it of samples alone. Of them those kinds count that the record tells of, and those of
    which a part is there.

    Raises
    ------
    UserError
        The record is damaged.
    """
    parts, counts = run.meta.get("parts"), run.meta.get(KINDS)
    if not isinstance(parts, int):
        return {}
    found = {**counts, DRAWN: parts} if isinstance(counts, Mapping) else {**_told(run, parts), DRAWN: parts}
    for kind, count in found.items():
        if not (_KIND.fullmatch(kind) and isinstance(count, int) and 0 <= count <= MOST):
            raise no_record(run.path / "run.json", f"it has {count!r:.30} parts of {kind!r:.60}")
    return found


def _told(run: Run, parts: int) -> dict[str, int]:
    """What the record of a run of an earlier version tells of kinds beside samples."""
    meta, asked = run.meta, run.config.observe.features
    told = {*drawn_kinds(run)} if "part_fields" in meta else set()
    if "observer" in meta and run.config.observe.objects:
        told |= {*OBJECTS}
    recorded = {kind for kind in meta if kind.startswith(NESTED)}
    if isinstance(asked, list):
        recorded = {
            kind for kind in recorded if not kind.startswith(NESTED[0]) or kind.partition("/")[2] in asked
        }
    told |= recorded
    fixed = {kind for kind in (*BESIDE_SAMPLES, *OBJECTS, *UNMEASURED) if part_files(run.path / kind)}
    found = dict.fromkeys(sorted(told | fixed | _nested_there(run)), parts)
    draws = (meta.get("trace") or {}).get("draws", 0)
    return {**found, **({TRACED: math.ceil(draws / run.config.generate.part_triplets)} if draws else {})}


def _nested_there(run: Run) -> set[str]:
    folders = [run.path / prefix.rstrip("/") for prefix in NESTED]
    entries = [entry for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    return {
        f"{entry.parent.name}/{entry.name}"
        for entry in entries
        if not entry.name.endswith(TEXTS) and part_files(entry)
    }


def drawn_kinds(run: Run) -> list[str]:
    """The kinds of part that the generate stage stores for a run, in the order they are written.

    A part is finished when its samples are there.
    """
    config = run.config
    return [DRAWN] if config.images is not None else kinds_of_capture(config.capture)


def kinds_of_capture(capture: Any) -> list[str]:
    """The kinds of part that are stored of drawn images, by section ``capture`` of the configuration."""
    asked = {"words": capture.words, "kept": capture.keep, "pooled": capture.pool}
    return [*(kind for kind, one in asked.items() if one), "captures", DRAWN]


def with_kinds(run: Run, names: Iterable[str], count: int) -> dict[str, int]:
    """The kinds of a run and how many parts of each it is to have, once it has so many of these."""
    return dict(sorted({**kinds(run), **dict.fromkeys(names, count)}.items()))


def without_kinds(run: Run, names: Collection[str]) -> dict[str, int]:
    """The kinds of a run but for these, and for those in folders of these names."""
    return {kind: count for kind, count in kinds(run).items() if kind.partition("/")[0] not in names}


def owned(run: Run, folders: Collection[str]) -> list[str]:
    """The part files in some folders that are a run's own by its record, and there; by their paths in the run."""
    names = []
    for kind, count in kinds(run).items():
        if kind.partition("/")[0] not in folders or (
            "/" in kind and kind not in {*run.meta, *run.meta.get(KINDS, ())}
        ):
            continue
        there = {file.name for file in part_files(run.path / kind)}
        names += [f"{kind}/{name}" for name in map(part_name, range(count)) if name in there]
        if kind.startswith(NESTED):  # of texts there is one part
            beside = [f"{kind}{end}" for end in TEXTS]
            names += [f"{one}/{part_name(0)}" for one in beside if part_files(run.path / one)]
    return names
