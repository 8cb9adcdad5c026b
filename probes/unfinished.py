"""A run that is measured before it is finished: which of its parts the measuring speaks of, and over how many images.

The list of parts is taken once, when the measuring begins (`snapshot`), and stands in ``run.json`` under `KEY` until
the run is measured again: whatever other processes add meanwhile, tables and report speak of the same images.
`Run.parts` gives these parts alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.parts import read_part

if TYPE_CHECKING:
    from probes.store import Run

KEY = "unfinished"
DRAWN, SEEN, TRACED = "samples", ("observed", "features", "attributes"), "traced"
_SAME = {
    "objects": "observed"
}  # kinds of one observer: what the last written of them lacks was not looked at
_TEXTS = "_texts"  # ends a kind of a run, not of its images


def number(file: Path) -> int:
    """The number of a part, by the name of its file.

    >>> number(Path("samples/part-00012.parquet"))
    12
    """
    return int(re.sub(r"\D", "", file.stem))


def restricted(meta: Mapping[str, Any], kind: str, files: Sequence[Path]) -> list[Path]:
    """Those part files of a kind that a run speaks of; all where it was not measured unfinished."""
    noted = meta.get(KEY)
    if not noted or kind.endswith(_TEXTS):
        return list(files)
    lists = noted["parts"]
    chosen = _numbers(lists.get(_SAME.get(kind, kind), lists[DRAWN]))
    return [file for file in files if number(file) in chosen]


def lacking(run: Run) -> bool:
    """Whether a part of a run is missing that it is to have, by what is there of other kinds; reads no part.

    A run made elsewhere, which does not say how many parts it is to have, lacks nothing.
    """
    return isinstance(run.meta.get("parts"), int) and _lacks(run, _there(run))


def drawn(run: Run) -> bool:
    """Whether all images of a run are drawn, as far as it says how many parts it is to have."""
    return len(run.parts(DRAWN)) >= int(run.meta.get("parts") or 0)


def _there(run: Run) -> dict[str, list[int]]:
    """Numbers of the parts that are there: samples, what observers stored of these, and the trace."""
    drawn = [number(file) for file in run.parts(DRAWN)]
    seen = {kind: sorted({number(file) for file in run.parts(kind)} & {*drawn}) for kind in _seen(run)}
    return {DRAWN: drawn, **seen, TRACED: [number(file) for file in run.parts(TRACED)]}


def _lacks(run: Run, there: Mapping[str, Sequence[int]]) -> bool:
    drawn, traced = there[DRAWN], there[TRACED]
    behind = any(len(numbers) < len(drawn) for kind, numbers in there.items() if kind != TRACED)
    return len(drawn) < run.meta["parts"] or behind or (bool(traced) and len(traced) < traced_parts(run))


def snapshot(run: Run) -> dict[str, Any] | None:
    """What there is of a run at this moment, and how much there is to be; None where nothing is missing.

    Returns
    -------
    dict or None
        ``parts``: numbers of the parts by kind, such as ``"0-3,7"``; ``triplets``, ``images``, ``observed`` and
        ``traced``: so many of so many; the last two stand for images that were looked at and parts of the trace, and
        only where some were.
    """
    if not isinstance(run.meta.get("parts"), int):
        return None
    there = _there(run)
    if not _lacks(run, there):
        return None
    rows = {part: _triplets(run, part) for part in there[DRAWN]}
    planned, triplets = run.meta.get("images", 0), {one for own in rows.values() for one in own}
    noted: dict[str, Any] = {
        "triplets": [len(triplets), planned_triplets(run)],
        "images": [sum(map(len, rows.values())), planned],
    }
    if there.get("observed"):
        noted["observed"] = [sum(len(rows[part]) for part in there["observed"]), planned]
    if there[TRACED]:
        noted["traced"] = [len(there[TRACED]), traced_parts(run)]
        if len(there[DRAWN]) < run.meta["parts"]:
            there[TRACED] = []  # it may be of prompts that are not drawn yet
    return {**noted, "parts": {kind: _text(numbers) for kind, numbers in there.items()}}


def _triplets(run: Run, part: int) -> list[int]:
    return list(read_part(run.part_path(DRAWN, part), ["triplet"])["triplet"].to_pylist())


def planned_triplets(run: Run) -> int:
    """How many triplets a run is to have."""
    config = run.config
    if config.images is not None:
        return int((run.meta.get("taken_in") or {}).get("triplets", len(config.prompts)))
    return min(len(config.prompts), config.limit or len(config.prompts))


def traced_parts(run: Run) -> int:
    """How many parts the trace of a run is to have, as far as its record says."""
    draws = (run.meta.get("trace") or {}).get("draws", 0)
    return math.ceil(draws / run.config.generate.part_triplets)


def said(meta: Mapping[str, Any]) -> str:
    """Over how much the results of a run speak that was measured unfinished; empty for others.

    Examples
    --------
    >>> said({"unfinished": {"triplets": [12, 44], "images": [36, 132], "observed": [24, 132], "parts": {}}})
    '36 of 132 images, of 12 of 44 triplets; objects and what else was observed: 24 of 132 images'
    """
    noted = meta.get(KEY)
    if not noted:
        return ""
    (images, all_images), (triplets, all_triplets) = noted["images"], noted["triplets"]
    text = f"{images:,} of {all_images:,} images, of {triplets:,} of {all_triplets:,} triplets"
    if "observed" in noted and noted["observed"][0] < all_images:
        text += "; objects and what else was observed: {:,} of {:,} images".format(*noted["observed"])
    if "traced" in noted and noted["traced"][0] < noted["traced"][1]:
        text += "; trace: {:,} of {:,} parts".format(*noted["traced"])
    return text


def _seen(run: Run) -> list[str]:
    """Kinds that observers stored, of which a part is there."""
    kinds = ["observed"]
    for folder in SEEN[1:]:
        there = sorted((run.path / folder).iterdir()) if (run.path / folder).is_dir() else []
        kinds += [f"{folder}/{entry.name}" for entry in there if not entry.name.endswith(_TEXTS)]
    return [kind for kind in kinds if run.parts(kind)]


def _text(numbers: Iterable[int]) -> str:
    """Numbers, ascending, with runs of them as their ends.

    >>> _text([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    ranges: list[list[int]] = []
    for one in numbers:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@lru_cache(maxsize=64)
def _numbers(text: str) -> frozenset[int]:
    """The numbers that a text of `_text` names.

    >>> sorted(_numbers("0-2,5"))
    [0, 1, 2, 5]
    """
    ends = [[int(one) for one in some.split("-")] for some in text.split(",") if some]
    return frozenset(one for some in ends for one in range(some[0], some[-1] + 1))
