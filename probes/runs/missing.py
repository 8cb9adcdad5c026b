"""Parts that a run lacks, and parts that are of other images than its samples: named, and never counted as empty.

``run.json`` says which kinds of parts a run has, and how many of each. Parts that this program wrote say in their
metadata what they were made from; of those that another program wrote the rows are compared.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.errors import UserError, printable
from probes.runs.parts import (
    column_names,
    identity_of,
    part_name,
    part_number,
    read_part,
    source_hash,
    stage_of,
)
from probes.runs.run import Run

UNMEASURED = ("kept", "pooled")  # no table is made of them
_GENERATED = ("samples", "captures", "words", *UNMEASURED)
_NAMED = 3  # kinds that a line names


def missing_message(run: Run, missing: Mapping[str, Sequence[int]]) -> str:
    """Return what is missing, the stages that make it and the command that goes through these, in a line."""
    stages = dict.fromkeys(stage_of(kind) for kind in missing)
    kinds = sorted(missing, key=lambda kind: (kind != "samples", kind))
    named = [
        f"{kind}/{part_name(missing[kind][0])}"
        + (f" (and {len(missing[kind]) - 1} more)" if len(missing[kind]) > 1 else "")
        for kind in kinds[:_NAMED]
    ]
    more = sum(len(missing[kind]) for kind in kinds[_NAMED:])
    return (
        f"missing {', '.join(named)}{f' and {more:,} of other kinds' if more else ''}"
        f" ({'stages' if len(stages) > 1 else 'stage'} {', '.join(stages)}):"
        f" triptych run {run.path} makes {'it' if sum(map(len, missing.values())) == 1 else 'them'} again"
    )


def open_run(path: str | Path) -> Run:
    """Open a run; what is missing of it is named on stderr.

    Raises
    ------
    UserError
        There is no run, or its record cannot be read.
    """
    run = Run.open(path)
    _warn(run)
    return run


def _warn(run: Run) -> None:
    if missing := run.missing():
        print(printable(f"{run.path}: {missing_message(run, missing)}"), file=sys.stderr)


def require_whole(run: Run) -> None:
    """Refuse a run whose parts are not all there, or not of the same images; what nothing is made of is named."""
    require_parts(run)
    require_same_images(run)
    _warn(run)


def require_parts(run: Run, stages: Sequence[str] = ("generate", "observe", "trace")) -> None:
    """Refuse a run of which a part is missing that these stages make and that is read later on."""
    missing = {
        kind: numbers
        for kind, numbers in run.missing().items()
        if stage_of(kind) in stages and kind not in UNMEASURED
    }
    if missing:
        raise UserError(f"{run.path}: expected all parts of the run: {missing_message(run, missing)}")


def require_same_images(run: Run) -> None:
    """Refuse a part that tables are made of and that holds rows of other images, or of fewer, than its samples."""
    kinds = [kind for kind in run.planned() if kind not in ("samples", "traced", *UNMEASURED)]
    files = {kind: {part_number(file): file for file in run.parts(kind)} for kind in kinds}
    for samples in run.parts("samples"):
        number = part_number(samples)
        made_from = identity_of(samples) or {}
        for kind, by_number in files.items():
            if number not in by_number:
                continue
            identity = identity_of(by_number[number]) or {}
            if identity.get("part", number) != number:
                raise _unlike(kind, by_number[number], samples, f"those of part {identity['part']}")
            source, expected = identity.get("fields", {}).get("samples"), source_hash(made_from)
            if kind in _GENERATED:
                source, expected = identity.get("hash"), made_from.get("hash")
            if not (source and expected):
                _require_rows(run, samples, kind, by_number[number], files["observed"].get(number))
            elif source != expected:
                raise _unlike(kind, by_number[number], samples, "those of others")


def _require_rows(run: Run, samples: Path, kind: str, file: Path, observed: Path | None) -> None:
    """Compare rows; of pairs of images no more is known than to which triplets and seeds they belong."""
    of_images = "sample_id" in column_names(file)
    columns = ["sample_id"] if of_images else ["triplet", "seed"]
    rows, wanted = _rows(file, columns), _rows(samples, columns)
    if set(rows) - set(wanted):
        raise _unlike(kind, file, samples, "rows of others")
    if kind != "objects":
        if set(wanted) - set(rows) and (of_images or (kind == "captures" and len(run.config.indicators) > 1)):
            raise _unlike(kind, file, samples, f"rows of {len(set(rows))} of {len(set(wanted))}")
    elif observed is not None and "kept" in column_names(observed):
        # an image may have no detection: how many it has is in what was observed
        for row in read_part(observed, ["sample_id", "kept"]).to_pylist():
            if (count := rows.get((row["sample_id"],), 0)) != row["kept"]:
                got = f"{count} of {row['kept']} detections in {row['sample_id']}"
                raise _unlike("objects", file, observed, got)


def _rows(file: Path, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """How many rows there are of each image, or of each triplet and seed."""
    return Counter(zip(*(read_part(file, columns)[name].to_pylist() for name in columns)))


def _unlike(kind: str, file: Path, samples: Path, got: str) -> UserError:
    return UserError(
        f"{file}: expected what belongs to {samples.parent.name}/{samples.name}, got {got}: delete it and run --stage"
        f" {stage_of(kind)} again, only this part is made anew"
    )
