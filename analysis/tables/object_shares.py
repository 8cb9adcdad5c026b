"""Table ``objects`` made of some part files at a time, so that several processes may make it.

The images of a run, their detections and their word maps stand in part files of the same names. A run that was put
together otherwise is looked at as a whole: what is made of a share says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.tables.object_tables import Objects, objects_of
from analysis.tables.sharing import Piece, cut
from probes.config.schema import Measure
from probes.runs.run import Run

SHARES = 24  # no result depends on it
IMAGE_KINDS = ("objects", "words", "observed")  # of which a row belongs to an image


def object_shares(run: Run) -> list[Piece]:
    """Cut `objects_of` a run by part files; no piece where the kinds have parts of different names."""
    options = run.config.measure
    samples, *others = ([file.name for file in run.parts(kind)] for kind in ("samples", *IMAGE_KINDS))
    if any(names != samples for names in others if names):
        return []
    return [
        Piece(_objects_of_parts, (samples[share], options), of_run=True)
        for share in cut(len(samples), SHARES)
    ]


def joined(run: Run, shares: Sequence[Objects | None]) -> Objects:
    """Both tables of `objects_of` a run, from what the pieces of `object_shares` gave."""
    there = [share for share in shares if share is not None]
    if there and len(there) == len(shares):
        nouns = pd.concat([own.assign(share=number) for number, (own, _) in enumerate(there)])
        # a prompt whose images stand in several shares has its nouns in each of them
        first = nouns.groupby(["triplet", "indicator"], sort=False)["share"].transform("first")
        once = nouns[nouns["share"] == first].drop(columns="share").reset_index(drop=True)
        if len(nouns.drop(columns="share").drop_duplicates()) == len(once.drop_duplicates()):  # the same ones
            return once, pd.concat([own for _, own in there], ignore_index=True)
    return objects_of(run, run.config.measure)


def _objects_of_parts(run: Run, names: Sequence[str], options: Measure) -> Objects | None:
    """`objects_of` some part files; None where a row in them belongs to an image that is in another."""
    try:
        return objects_of(SomeParts(run, names), options)
    except _ElsewhereError:
        return None


class _ElsewhereError(Exception):
    """A row belongs to an image that is in none of the part files."""


class SomeParts(Run):
    """A run of which some part files alone are read."""

    def __init__(self, run: Run, names: Sequence[str]):
        super().__init__(run.path, run.meta)
        self._part_names = frozenset(names)
        self._files_of: dict[str, list[Path]] = {}  # looked up once, and not for each of many reads
        self._here = pa.chunked_array(
            [
                chunk
                for table in self.part_tables("samples", ["sample_id"])
                for chunk in table["sample_id"].chunks
            ],
            pa.string(),
        )

    def parts(self, kind: str) -> list[Path]:
        """The part files of a kind that were chosen, in order."""
        if kind not in self._files_of:
            self._files_of[kind] = [file for file in super().parts(kind) if file.name in self._part_names]
        return self._files_of[kind]

    def part_tables(self, kind: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield them one after another, see `Run.part_tables`."""
        for table in super().part_tables(kind, columns):
            if kind in IMAGE_KINDS and not pc.all(pc.is_in(table["sample_id"], self._here)).as_py():
                raise _ElsewhereError
            yield table
