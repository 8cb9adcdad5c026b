"""Columns of parts on object storage that were read, for as long as a stage that only reads parts is at work.

Such a stage asks for a few columns of the same part again and again. The first time those that take next to no room in
the file are read with them, and nothing is asked of the storage for them afterwards. On a disk nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from probes.storage.objects import ObjectPath

LIGHT = 2**15  # bytes that a column takes in a file, at most, to be read though it was not asked for
ROOM = 2**28  # bytes of tables that are remembered; what is read after that is not
_TABLES: dict[ObjectPath, pa.Table] = {}
_HELD = [0]  # how many hold the memory, one within the other


@contextmanager
def cache_parts() -> Iterator[None]:
    """Remember in the block what is read of parts on object storage; no part is written over meanwhile."""
    _HELD[0] += 1
    try:
        yield
    finally:
        _HELD[0] -= 1
        if not _HELD[0]:
            _TABLES.clear()


def cached(path: Path, columns: Sequence[str] | None) -> pa.Table | None:
    """Those columns of a part, in the order asked for; None where one of them is not remembered."""
    table = _TABLES.get(path) if isinstance(path, ObjectPath) and columns is not None else None
    if table is None or columns is None or not {*columns} <= {*table.column_names}:
        return None
    return table.select(list(columns))


def columns_to_read(path: Path, columns: Sequence[str] | None, file: pq.ParquetFile) -> list[str] | None:
    """The columns to be read where some are asked for: with the light ones where they will be remembered."""
    ours = b"triptych" in (file.schema_arrow.metadata or {})
    if columns is None or not ours or not _HELD[0] or not isinstance(path, ObjectPath) or path in _TABLES:
        return None if columns is None else list(columns)
    return [*columns, *sorted(_light(file) - {*columns})]


def remember(path: Path, table: pa.Table, file: pq.ParquetFile) -> None:
    """Remember the light columns of a part that were read, checked, while there is room; those that were read first."""
    if not _HELD[0] or not isinstance(path, ObjectPath) or path in _TABLES:
        return
    light = _light(file)
    table = table.select([name for name in table.column_names if name in light])
    if table.nbytes + sum(other.nbytes for other in _TABLES.values()) <= ROOM:
        _TABLES[path] = table


def _light(file: pq.ParquetFile) -> set[str]:
    """The columns of a file that take next to no room, all that is nested in one together."""
    names, sizes = file.schema_arrow.names, dict[str, int]()
    for group in range(file.metadata.num_row_groups):
        row_group = file.metadata.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            path = f"{column.path_in_schema}."  # a name of captures has dots of its own
            name = max((name for name in names if path.startswith(f"{name}.")), key=len)
            sizes[name] = sizes.get(name, 0) + column.total_compressed_size
    return {name for name, size in sizes.items() if size <= LIGHT}
