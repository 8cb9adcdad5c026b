"""Results of a run as they are written: tables, figures, the page; the record knows which stage wrote them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from probes.csv_text import csv_bytes
from probes.locks import GATE, locked
from probes.paths import link_of
from probes.runs import recorded_files
from probes.runs.parts import disk_error, write_bytes
from probes.runs.record import merged_record, read_record, record_bytes
from probes.runs.tables import table_bytes

CSV_ROWS = 1_000_000  # of a result table, less than the 1,048,576 rows of a spreadsheet
# what a stage may name as written
_RESULT = re.compile(r"(tables|figures|gallery)/[^/\\]+|report\.html|README\.md|overlays\.parquet")


class ResultWriter:
    """Writes the results of a run directory, and notes in ``run.json`` which stage wrote each."""

    def __init__(self, path: Path, meta: dict[str, Any]):
        self.path, self.meta = path, meta
        self._before = dict(meta)  # the record as this process has read or written it last
        self._stage: str | None = None
        self._names: set[str] = set()

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """Write a result table as CSV and Parquet; the same frame gives the same bytes.

        A table of more than :data:`CSV_ROWS` rows, which no spreadsheet opens, is written as Parquet alone.
        """
        endings = ("csv", "parquet") if len(frame) <= CSV_ROWS else ("parquet",)
        self._note([f"tables/{name}.{ending}" for ending in endings])
        if "csv" in endings:
            write_bytes(self.path / "tables" / f"{name}.csv", csv_bytes(frame))
        self.write_parquet(name, frame)

    def write_parquet(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table that is read by programs, not by people, as Parquet alone; :meth:`table` reads it."""
        self.write_file(f"tables/{name}.parquet", table_bytes(name, frame))

    def write_file(self, name: str, data: bytes | memoryview) -> None:
        """Write another result by its path in the run: a table in LaTeX, a figure, the page."""
        self._note([name])
        write_bytes(self.path / name, data)

    def write_files(self, names: Sequence[str], data: Iterable[bytes]) -> None:
        """Write many results, by their paths in the run; ``run.json`` is written once for all of them."""
        self._note(names)
        for name, content in zip(names, data, strict=True):
            write_bytes(self.path / name, content)

    @contextlib.contextmanager
    def writing(self, stage: str) -> Iterator[None]:
        """Remove, at the end of a stage, the results that it wrote before and has not written now.

        What a stage writes is noted in ``run.json`` before it is written, so that no file is left of which the run
        does not know. A stage that fails removes nothing.
        """
        self._stage, self._names = stage, set()
        try:
            yield
        finally:
            self._stage = None
        self.remove_files(sorted(set(self.written(stage)) - self._names))
        if sorted(self._names) != self.written(stage):
            self._note_as(stage, self._names)

    def written(self, stage: str | None = None) -> list[str]:
        """The results that a stage, or any, wrote, by their paths in the run, in order."""
        noted = self.meta.get("written")
        noted = noted if isinstance(noted, dict) else {}
        noted = {key: names for key, names in noted.items() if isinstance(names, list)}
        chosen = [stage] if stage else sorted(noted)
        names = {str(name) for one in chosen for name in noted.get(one, ())}
        return sorted(name for name in names if _RESULT.fullmatch(name))

    def remove_file(self, name: str) -> None:
        """Remove a file by its path in the run, if it is there."""
        self.remove_files([name])

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove files by their paths in the run, those that are there; none through a link, and no link."""
        try:
            for name in names:
                if link_of(self.path, name) is None and (self.path / name).is_file():
                    (self.path / name).unlink()
        except OSError as error:
            raise disk_error(Path(error.filename or str(self.path)), error) from None

    def _note(self, names: Iterable[str]) -> None:
        """Note what the stage under way is about to write; other commands hold no lock and note nothing."""
        if self._stage is None:
            return
        self._names |= set(names)
        noted = set(self.written(self._stage))
        if self._names - noted:
            self._note_as(self._stage, noted | self._names)

    def _note_as(self, stage: str, names: Iterable[str]) -> None:
        self.write_meta(written={**(self.meta.get("written") or {}), stage: sorted(names)})

    def write_meta(self, **fields: Any) -> None:
        """Put fields over ``run.json``, beside what other processes have noted in it, with a checksum of itself."""
        file, meta = self.path / "run.json", {**self.meta, **fields}
        with locked(self.path / GATE):
            there = read_record(file) if self.meta and file.exists() else None
            noted = meta if there is None else merged_record(self._before, meta, there)
            write_bytes(file, record_bytes(noted, self.path))
        self.meta = recorded_files.as_read(meta, self.path)
        self._before = dict(self.meta)

    def read_again(self) -> None:
        """Read ``run.json`` again, if it is there: another process may have written it."""
        if (self.path / "run.json").exists():
            self.meta = read_record(self.path / "run.json")
            self._before = dict(self.meta)
