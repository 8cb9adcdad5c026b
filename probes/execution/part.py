"""A part of a stage: what makes one, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from probes.execution.team import Do
from probes.runs.parts import write_part


@dataclass(frozen=True)
class RowsOfKind:
    """Rows that a piece gave for the files of one kind: rows and their columns."""

    rows: list[dict[str, Any]]
    schema: pa.Schema


Piece = Mapping[str, RowsOfKind]  # by kind


@dataclass(frozen=True)
class Part:
    """A part of a stage."""

    # its files by kind, in the order they are written; it is finished when all are there
    paths: Mapping[str, Path]
    identity: Mapping[str, Any]  # what it was made from (:func:`probes.runs.parts.identity`)
    images: int  # images in it
    pieces: Sequence[Any]  # what the work of the stage is given one by one; each gives a `Piece`


def make_whole(part: Part, do: Do, require: Callable[[], None] = lambda: None) -> None:
    """Make all pieces of a part in this process, and write its files once `require` lets it."""
    pieces = [do(piece, lambda images: None) for piece in part.pieces]
    require()
    write(part, pieces)


def write(part: Part, pieces: Sequence[Piece]) -> None:
    """Write the files of a part, in their order."""
    for kind, path in part.paths.items():
        rows = [row for piece in pieces for row in piece[kind].rows]
        write_part(path, rows, pieces[-1][kind].schema, part.identity)
