"""Parts that a run is to have: kinds of parts, how many of each, by what its record says; and which it owns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from probes.runs.parts import part_files, part_name
from probes.runs.record import no_record
from probes.runs.selection import DRAWN, KINDS, NESTED, TEXTS

if TYPE_CHECKING:
    from probes.runs.store import Run

_KIND = re.compile(r"[a-z]+|(?:features|attributes)/\w[\w.-]*")
MOST = 1_000_000  # parts of a kind: a record that says more is damaged


def kinds(run: Run) -> dict[str, int]:
    """Return how many parts of each kind a run is to have, by its record; nothing where that does not say how many."""
    parts, counts = run.meta.get("parts"), run.meta.get(KINDS)
    if not (isinstance(parts, int) and isinstance(counts, Mapping)):
        return {}
    found = {**counts, DRAWN: parts}
    for kind, count in found.items():
        if not (_KIND.fullmatch(kind) and isinstance(count, int) and 0 <= count <= MOST):
            raise no_record(run.path / "run.json", f"it has {count!r:.30} parts of {kind!r:.60}")
    return found


def kinds_of_capture(capture: Any) -> list[str]:
    """The kinds of part that are stored of drawn images, by section ``capture`` of the configuration."""
    requested = {"words": capture.words, "kept": capture.keep, "pooled": capture.pool}
    return [*(kind for kind, one in requested.items() if one), "captures", DRAWN]


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
