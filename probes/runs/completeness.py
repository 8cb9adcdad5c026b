"""A run of which parts are missing: which of its parts are spoken of, over how many images, and what makes the others.

Parts may be missing since they are not made yet, or since they were lost. ``run.json`` says which kinds of parts a run
has, and how many of each (`kinds`); what is there is compared with it before anything is measured or shown. A part file
of samples counts as there when its captures and word maps are there as well, one of detections when that of the
observations is. A kind of which nothing is left is as one that was never asked for, and named.

The list of parts is taken once, when the measuring begins (`snapshot`), and stands in ``run.json`` under `KEY` until
the run is measured again: whatever other processes add meanwhile, tables and report speak of the same images.
`Run.parts` gives these parts alone.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from probes.errors import UserError, printable
from probes.runs import selection
from probes.runs.kinds import kinds
from probes.runs.parts import part_files, part_name, read_part, stage_of
from probes.runs.selection import (
    BESIDE_SAMPLES,
    DRAWN,
    KEY,
    NESTED,
    OBJECTS,
    STOPPED,
    TRACED,
    UNMEASURED,
    number,
)

if TYPE_CHECKING:
    from probes.runs.store import Run

LOST = "lost"  # of run.json
_ON_PAGE = ("words", *OBJECTS, TRACED)  # beside samples
NAMED = 3  # files that a line names


# What is missing


def missing(run: Run) -> dict[str, list[int]]:
    """Numbers of the parts that a run is to have and that are not there, by kind; reads no part."""
    return {
        kind: absent
        for kind, count in kinds(run).items()
        if (absent := sorted({*range(count)} - _there(run, kind)))
    }


def _there(run: Run, kind: str) -> set[int]:
    return {number(file) for file in part_files(run.path / kind)}


def has_missing_parts(run: Run) -> bool:
    """Return whether a part of a run is missing that something is made of; reads no part.

    A run made elsewhere, which does not say how many parts it is to have, lacks nothing.
    """
    return not {*missing(run)} <= {*UNMEASURED}


def is_generated(run: Run) -> bool:
    """Return whether all images of a run are drawn, as far as it says how many parts it is to have."""
    return DRAWN not in missing(run)


def snapshot(run: Run) -> dict[str, Any] | None:
    """Return what there is of a run at this moment, and how much there is to be; None where nothing is missing.

    ``parts``: numbers of the parts by kind, such as ``"0-3,7"``; ``missing``: those that are not there; ``triplets``,
    ``images``, ``observed`` and ``traced``: so many of so many; the last two stand for images that were searched for
    objects and parts of the trace, and only where some were; ``others``: images with what else was observed, by kind,
    where these are not as many; ``without``: kinds of which nothing is left.
    """
    if not has_missing_parts(run):
        return None
    counts, absent = kinds(run), missing(run)
    there = {kind: {*range(count)} - {*absent.get(kind, ())} for kind, count in counts.items()}
    whole = _whole(run, there)
    rows = {part: _triplets(run, part) for part in sorted(whole[DRAWN])}
    triplets = {one for own in rows.values() for one in own}
    images = {kind: sum(len(rows[part]) for part in own) for kind, own in whole.items()}
    without = [kind for kind in counts if not whole.get("observed" if kind in OBJECTS else kind, there[kind])]
    noted = {"triplets": [len(triplets), planned_triplets(run)], **_amounts(run, images, without)}
    if TRACED in counts:
        whole[TRACED] = {part for part in there[TRACED] if _of_triplets(run, part, triplets)}
        noted["traced"] = [len(whole[TRACED]), counts[TRACED]]
    return {
        **noted,
        **({"without": without} if without else {}),
        "missing": {kind: _text(numbers) for kind, numbers in absent.items()},
        "parts": {kind: _text(sorted(numbers)) for kind, numbers in whole.items()},
    }


def _amounts(run: Run, images: Mapping[str, int], without: Collection[str]) -> dict[str, Any]:
    """Return how many images there are, how many were searched for objects, and with what else fewer were observed."""
    planned, observed = run.meta.get("images", 0), images.get("observed", images[DRAWN])
    nested = {kind: seen for kind, seen in images.items() if kind.startswith(NESTED) and kind not in without}
    separate = {*nested.values()} - {observed}
    fewer = {kind: seen for kind, seen in nested.items() if seen < images[DRAWN]}
    return {
        "images": [images[DRAWN], planned],
        **({"observed": [observed, planned]} if "observed" in images else {}),
        **({"others": fewer} if separate else {}),
    }


def _whole(run: Run, there: Mapping[str, set[int]]) -> dict[str, set[int]]:
    """Numbers of the parts that are spoken of: samples, and what observers stored of these."""
    samples = set.intersection(
        *(there[kind] for kind in (DRAWN, *BESIDE_SAMPLES) if kind == DRAWN or there.get(kind))
    )
    if not samples:
        raise UserError(
            f"{run.path}: expected images to speak of, found none whole: {missing_message(run, missing(run))}"
        )
    objects = [there[kind] for kind in OBJECTS if kind in there]
    observed = {"observed": samples.intersection(*objects)} if objects else {}
    nested = {kind: there[kind] & samples for kind in there if kind.startswith(NESTED)}
    return {DRAWN: samples, **observed, **nested}


def _of_triplets(run: Run, part: int, triplets: Collection[int]) -> bool:
    """Return whether a part of the trace is of triplets that are there."""
    return {*read_part(run.part_path(TRACED, part), ["triplet"])["triplet"].to_pylist()} <= {*triplets}


def _triplets(run: Run, part: int) -> list[int]:
    return list(read_part(run.part_path(DRAWN, part), ["triplet"])["triplet"].to_pylist())


def planned_triplets(run: Run) -> int:
    """Return how many triplets a run is to have."""
    config = run.config
    if isinstance(stop := run.meta.get(STOPPED), Mapping):
        return int(stop["images"]) // len(config.indicators) // len(config.seeds)
    if config.images is not None:
        return int((run.meta.get("taken_in") or {}).get("triplets", len(config.prompts)))
    return min(len(config.prompts), config.limit or len(config.prompts))


# A page made of tables that were measured before


def lost_parts(run: Run) -> dict[str, list[int]]:
    """Numbers of the parts that are not there and were when the run was measured, by kind."""
    noted, lost = (
        run.meta.get(KEY),
        {kind: own for kind, own in missing(run).items() if kind not in UNMEASURED},
    )
    if noted:
        absent = {*noted.get("without", ())}
        lost = {
            kind: sorted({*own} & selection.numbers(selection.noted_list(noted, kind)))
            for kind, own in lost.items()
        }
        lost = {kind: own for kind, own in lost.items() if own and kind not in absent}
    shown = [
        kind for kind in lost if kind == DRAWN or (kind in _ON_PAGE and len(lost[kind]) < kinds(run)[kind])
    ]
    if shown:
        raise UserError(
            f"{run.path}: expected the parts that were there when it was measured: {missing_message(run, lost)};"
            " or run --stage measure over what is left"
        )
    return lost


# What is said of it


def summary(meta: Mapping[str, Any]) -> str:
    """Over how much the results of a run speak that was measured unfinished; empty for others.

    Examples
    --------
    >>> summary(
    ...     {"unfinished": {"triplets": [12, 44], "images": [36, 132], "observed": [24, 132], "parts": {}}}
    ... )
    '36 of 132 images, of 12 of 44 triplets; objects and what else was observed: 24 of 132 images'
    >>> lost = {"triplets": [4, 4], "images": [12, 12], "observed": [3, 12], "others": {}, "parts": {}}
    >>> summary({"unfinished": lost})
    '12 of 12 images, of 4 of 4 triplets; objects: 3 of 12 images'
    """
    noted = meta.get(KEY)
    if not noted:
        return ""
    (images, all_images), (triplets, all_triplets) = noted["images"], noted["triplets"]
    text = f"{images:,} of {all_images:,} images, of {triplets:,} of {all_triplets:,} triplets"
    if "observed" in noted and noted["observed"][0] < all_images:
        what = "objects" if "others" in noted else "objects and what else was observed"
        text += "; {}: {:,} of {:,} images".format(what, *noted["observed"])
    text += "".join(
        f"; {kind}: {number:,} of {all_images:,} images" for kind, number in noted.get("others", {}).items()
    )
    if "traced" in noted and noted["traced"][0] < noted["traced"][1]:
        text += "; trace: {:,} of {:,} parts".format(*noted["traced"])
    return text + (f"; without {', '.join(noted['without'])}" if noted.get("without") else "")


def for_page(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return a page's sentences on missing parts: ``unfinished`` when measured, and ``lost`` since."""
    absent = {
        kind: sorted(selection.numbers(text))
        for kind, text in (meta.get(KEY) or {}).get("missing", {}).items()
    }
    return {"unfinished": summary(meta), "missing_parts": name_files(absent), LOST: meta.get(LOST, "")}


def missing_message(run: Run, absent: Mapping[str, Sequence[int]]) -> str:
    """Return what is missing, the stages that make it and the command that goes through these, in a line."""
    stages = dict.fromkeys(stage_of(kind) for kind in absent)
    return (
        f"missing {name_files(absent)} ({'stages' if len(stages) > 1 else 'stage'} {', '.join(stages)}):"
        f" triptych run {run.path} makes {'it' if sum(map(len, absent.values())) == 1 else 'them'} again"
    )


def name_files(absent: Mapping[str, Sequence[int]]) -> str:
    """The files that are missing: of each kind the first is named and the rest counted, of the last kinds all are."""
    kinds = sorted(absent, key=lambda kind: (kind != DRAWN, kind))
    named = [
        f"{kind}/{part_name(absent[kind][0])}"
        + (f" (and {len(absent[kind]) - 1} more)" if len(absent[kind]) > 1 else "")
        for kind in kinds[:NAMED]
    ]
    more = sum(len(absent[kind]) for kind in kinds[NAMED:])
    return ", ".join(named) + (f" and {more:,} of other kinds" if more else "")


def warn(run: Run, over: str = "") -> None:
    """Say on stderr what is missing of a run, after something else there is to say; nothing where all is there."""
    absent = missing(run)
    lines = [line for line in (over, missing_message(run, absent) if absent else "") if line]
    if lines:
        print(printable(f"{run.path}: {'; '.join(lines)}"), file=sys.stderr)


def restrict_to_whole(run: Run) -> Run:
    """Let a run that was opened speak of the parts that are whole, and say on stderr over how much that is.

    Nothing is written. What is said is what it was measured over, where it was and nothing has been lost since.
    """
    noted, lost = run.meta.get(KEY), missing(run)
    if noted:
        lost = {
            kind: own
            for kind, own in lost.items()
            if {*own} & selection.numbers(selection.noted_list(noted, kind))
        }
        lost = {kind: own for kind, own in lost.items() if kind not in noted.get("without", ())}
    if not {*lost} <= {*UNMEASURED} and part_files(run.path / DRAWN):  # tables may be all that is left
        noted = snapshot(run)
    if noted:
        run.meta = {**run.meta, KEY: noted}
    warn(run, f"the run is not finished: over {summary(run.meta)}" if noted else "")
    return run


def _text(numbers: Iterable[int]) -> str:
    """Ascending numbers as text, such as ``0-2,5,7-8``."""
    ranges: list[list[int]] = []
    for one in numbers:
        if ranges and ranges[-1][1] == one - 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
