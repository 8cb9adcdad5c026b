"""Checks that the parts of a run are of the same images, by what they say they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.errors import UserError
from probes.runs.kinds import kinds
from probes.runs.parts import digest, identity_of, stage_of
from probes.runs.selection import DRAWN, TRACED, UNMEASURED, number

if TYPE_CHECKING:
    from probes.runs.store import Run

_DRAWN = (DRAWN, "captures", "words", *UNMEASURED)


def require_rows(run: Run) -> None:
    """Refuse a part that tables are made of and that holds rows of other images, or of fewer, than its samples."""
    checked = [kind for kind in kinds(run) if kind not in (DRAWN, TRACED, *UNMEASURED)]
    files = {kind: {number(file): file for file in run.parts(kind)} for kind in checked}
    for samples in run.parts(DRAWN):
        own = {kind: there[number(samples)] for kind, there in files.items() if number(samples) in there}
        if own:
            _require_of(samples, own)


def _require_of(samples: Path, own: Mapping[str, Path]) -> None:
    made_from = identity_of(samples) or {}
    for kind, file in own.items():
        identity = identity_of(file) or {}
        if "part" in identity and identity["part"] != number(file):
            raise _wrong(kind, file, samples, f"those of part {identity['part']}")
        if not _same(kind, identity, made_from):
            raise _wrong(kind, file, samples, "those of others")


def _same(kind: str, identity: Mapping[str, Any], made_from: Mapping[str, Any]) -> bool:
    """Return whether a part is of the same images as one of samples, as far as both say what they were made from."""
    if kind in _DRAWN:
        hashes = identity.get("hash"), made_from.get("hash")
        return not all(hashes) or hashes[0] == hashes[1]
    seen = identity.get("fields", {}).get("samples")
    return not seen or "content" not in made_from or seen == digest(repr(made_from["content"]))


def _wrong(kind: str, file: Path, samples: Path, got: str) -> UserError:
    return UserError(
        f"{file}: expected what belongs to {samples.parent.name}/{samples.name}, got {got}: delete it and run --stage"
        f" {stage_of(kind)} again, only this part is made anew"
    )
