"""Result tables as Parquet files that say which table they hold, so that none is read for another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from probes.errors import UserError
from probes.runs.parts import parquet_bytes, read_part

_NAME = b"triptych_table"  # of the metadata; files of other programs have none


def table_bytes(name: str, frame: pd.DataFrame) -> memoryview:
    """Return a result table as a Parquet file that holds its name; the same frame gives the same bytes."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return parquet_bytes(table.replace_schema_metadata({**table.schema.metadata, _NAME: name}))


def read_table(path: Path, columns: Iterable[str] = (), texts: Collection[str] | None = None) -> pd.DataFrame:
    """Return the result table whose name a file bears, which must have some columns.

    `texts`: those of them that hold text, where the others hold numbers, or true and false; None: of any kind.
    """
    columns = list(columns)
    table = read_part(path)
    found = (table.schema.metadata or {}).get(_NAME, path.stem.encode()).decode(errors="replace")
    if found != path.stem:
        raise UserError(
            f"{path}: expected the table {path.stem}, found {found!s:.60}: put its own file back, or run --stage"
            " measure again"
        )
    if missing := [name for name in columns if name not in table.column_names]:
        raise UserError(f"{path}: expected a column `{missing[0]}`, found none: run --stage measure again")
    return table.to_pandas() if texts is None else _checked(path, table, columns, texts)


def _checked(path: Path, table: pa.Table, columns: Iterable[str], texts: Collection[str]) -> pd.DataFrame:
    """The table, once its columns are found to hold what they are to; one without any value has the type of numbers."""
    for name in columns:
        column, text = table[name], name in texts
        wanted = "text" if text else "numbers"
        if not pc.any(column.is_valid(), min_count=0).as_py() or _all_nan(column):
            if types.is_null(column.type) and not text:
                table = table.set_column(table.column_names.index(name), name, column.cast(pa.float64()))
        elif not _fits(column.type, text=text):
            raise _other(path, name, wanted, str(column.type))
        elif name.startswith("p_") and not text and (outside := _outside(column)):
            raise _other(path, name, "numbers from 0 to 1", outside)
    return table.to_pandas()


def _other(path: Path, name: str, wanted: str, found: str) -> UserError:
    return UserError(
        f"{path}: expected {wanted} in the column `{name}`, found {found:.60}: run --stage measure again"
    )


def _outside(column: pa.ChunkedArray) -> str:
    """The least or largest of some p-values where it is none; else nothing."""
    ends = pc.min_max(column).as_py().values()
    return next((str(end) for end in ends if end is not None and not 0 <= end <= 1 and end == end), "")


def _all_nan(column: pa.ChunkedArray) -> bool:
    return types.is_floating(column.type) and bool(pc.all(pc.is_nan(column), min_count=0).as_py())


def _fits(kind: pa.DataType, *, text: bool) -> bool:
    """Return whether a column of this kind can hold text, or else numbers."""
    if text:
        return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
