"""Columns of the parts of a kind, kept in memory: to open a part takes longer than to read a column of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from probes.storage.objects import ObjectPath

Stamp = tuple[str, int, int]  # of a file: its name, when it was written (ns), its bytes


class RememberedColumns:
    """Columns of the parts of one kind, each read once as long as no part is added, removed or written anew.

    Of parts on object storage nothing is kept here (`probes.storage.cache`).

    Parameters
    ----------
    files : callable
        Gives the part files, in order.
    tables : callable
        Reads some columns of them, a table a file.
    """

    def __init__(
        self, files: Callable[[], list[Path]], tables: Callable[[Sequence[str]], Iterable[pa.Table]]
    ):
        self._files, self._tables = files, tables
        self._stamps: list[Stamp] | None = None
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._rows: list[int] = []  # of each file

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of all parts, one after another."""
        return self._read(columns)[1]

    def by_file(self, columns: Sequence[str]) -> Iterator[tuple[Path, pa.Table]]:
        """Yield each part with columns of it."""
        files, table = self._read(columns)
        start = 0
        for file, rows in zip(files, self._rows, strict=True):
            yield file, table.slice(start, rows)
            start += rows

    def _read(self, columns: Sequence[str]) -> tuple[list[Path], pa.Table]:
        files = self._files()
        stamps = _stamps(files)  # before they are read: what is written meanwhile is read again
        if stamps is None or stamps != self._stamps:
            self._columns = {}
        self._stamps = stamps
        missing = [name for name in columns if name not in self._columns]
        if missing or not columns:
            tables = list(self._tables(missing))
            self._rows = [table.num_rows for table in tables]
            read = pa.concat_tables(tables)
            self._columns |= {name: read[name] for name in missing}
        return files, pa.table({name: self._columns[name] for name in columns})


def _stamps(files: Sequence[Path]) -> list[Stamp] | None:
    stamps = [stamp(file) for file in files]
    known = [one for one in stamps if one is not None]
    return known if len(known) == len(stamps) else None


def stamp(file: Path) -> Stamp | None:
    """Return path, modification time (ns) and size of a file, by which changes show; None if missing or not local."""
    if isinstance(file, ObjectPath):
        return None
    try:
        state = file.stat()
    except OSError:
        return None
    return str(file), state.st_mtime_ns, state.st_size
