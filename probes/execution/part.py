"""A part of a stage: what makes one, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from probes.errors import UserError
from probes.runs.parts import DamagedPartError, part_bytes, read_identity, read_part


@dataclass(frozen=True)
class RowsOfKind:
    """Rows that a piece gave for the files of one kind: rows and their columns."""

    rows: list[dict[str, Any]]
    schema: pa.Schema
    batch: int | None = None  # so many at a time, where the device had no room for as many as planned


Piece = Mapping[str, RowsOfKind]  # by kind


@dataclass(frozen=True)
class Part:
    """A part of a stage, the unit that a process makes; a function of its identity."""

    # its files by kind, in the order they are written; it is finished when all are there
    paths: Mapping[str, Path]
    identity: Mapping[str, Any]  # what it is made from (:func:`probes.runs.parts.identity`)
    images: int  # images in it
    pieces: Sequence[Any]  # what the work of the stage is given one by one; each gives a `Piece`

    @property
    def lock(self) -> Path:
        """The file that is locked by the process that makes it."""
        first = next(iter(self.paths.values()))
        return first.with_name(f"{first.name}.lock")

    def is_finished(self) -> bool:
        """Return whether its files are there as they are to be."""
        try:
            for path in self.paths.values():
                if not path.exists() or read_identity(path).get("hash") != self.identity["hash"]:
                    return False
                read_part(path)
        except (DamagedPartError, UserError):
            return False
        return True

    def files(self, pieces: Sequence[Piece]) -> Iterator[tuple[str, memoryview]]:
        """Yield the content of its files by kind, in their order."""
        for kind in self.paths:
            rows = [row for piece in pieces for row in piece[kind].rows]
            halved = [batch for piece in pieces if (batch := piece[kind].batch)]
            identity = {**self.identity, **({"batch": min(halved)} if halved else {})}
            yield kind, part_bytes(rows, pieces[-1][kind].schema, identity)
