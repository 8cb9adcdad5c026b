"""Checks that the parts of a run are of the same images.

Parts that this program wrote say in their metadata what they were made from; of others the rows are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.errors import UserError
from probes.runs.kinds import kinds
from probes.runs.parts import column_names, digest, identity_of, read_part, stage_of
from probes.runs.selection import DRAWN, OBJECTS, TRACED, UNMEASURED, number

if TYPE_CHECKING:
    from probes.runs.store import Run

_DRAWN = (DRAWN, "captures", "words", *UNMEASURED)
_KEY = ["triplet", "seed"]


def require_rows(run: Run) -> None:
    """Refuse a part that tables are made of and that holds rows of other images, or of fewer, than its samples."""
    checked = [kind for kind in kinds(run) if kind not in (DRAWN, TRACED, *UNMEASURED)]
    files = {kind: {number(file): file for file in run.parts(kind)} for kind in checked}
    for samples in run.parts(DRAWN):
        own = {kind: there[number(samples)] for kind, there in files.items() if number(samples) in there}
        if own:
            _require_of(run, samples, own)


def _require_of(run: Run, samples: Path, own: Mapping[str, Path]) -> None:
    made_from = identity_of(samples) or {}
    for kind, file in own.items():
        identity = identity_of(file) or {}
        if "part" in identity and identity["part"] != number(file):
            raise _wrong(kind, file, samples, f"those of part {identity['part']}")
        same = _same(kind, identity, made_from)
        if same is None:
            _require_keys(run, samples, kind, file, own)
        elif not same:
            raise _wrong(kind, file, samples, "those of others")


def _same(kind: str, identity: Mapping[str, Any], made_from: Mapping[str, Any]) -> bool | None:
    """Return whether a part is of the same images as one of samples, by what both say; None where they do not."""
    if kind in _DRAWN:
        hashes = identity.get("hash"), made_from.get("hash")
        return hashes[0] == hashes[1] if all(hashes) else None
    seen = identity.get("fields", {}).get("samples")
    return seen == digest(repr(made_from["content"])) if seen and "content" in made_from else None


def _require_keys(run: Run, samples: Path, kind: str, file: Path, own: Mapping[str, Path]) -> None:
    """Compare rows; of pairs of images no more is known than to which triplets and seeds they belong."""
    of_images = "sample_id" in column_names(file)
    columns = ["sample_id"] if of_images else _KEY
    there, wanted = _rows(file, columns), _rows(samples, columns)
    if set(there) - set(wanted):
        raise _wrong(kind, file, samples, "rows of others")
    if kind == "objects":
        _require_counts(file, own.get(OBJECTS[1]), there)
    elif set(wanted) - set(there) and (of_images or (kind == "captures" and len(run.config.indicators) > 1)):
        raise _wrong(kind, file, samples, f"rows of {len(set(there))} of {len(set(wanted))}")


def _require_counts(file: Path, observed: Path | None, there: Mapping[tuple, int]) -> None:
    """An image may have no detection: how many it has is in what was observed."""
    if observed is None or "kept" not in column_names(observed):
        return
    for row in read_part(observed, ["sample_id", "kept"]).to_pylist():
        found = there.get((row["sample_id"],), 0)
        if found != row["kept"]:
            raise _wrong(
                "objects", file, observed, f"{found} of {row['kept']} detections in {row['sample_id']}"
            )


def _rows(file: Path, columns: Collection[str]) -> Counter[tuple]:
    """Return how many rows there are of each image, or of each triplet and seed."""
    return Counter(zip(*(read_part(file, columns)[name].to_pylist() for name in columns)))


def _wrong(kind: str, file: Path, samples: Path, got: str) -> UserError:
    return UserError(
        f"{file}: expected what belongs to {samples.parent.name}/{samples.name}, got {got}: delete it and run --stage"
        f" {stage_of(kind)} again, only this part is made anew"
    )
