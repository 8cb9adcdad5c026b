"""Result tables as Parquet files that say which table they hold, so that none is read for another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import types

from probes.errors import UserError
from probes.runs.parts import parquet_bytes, read_part

_TEXT = (types.is_string, types.is_large_string, types.is_string_view)
_NUMBERS = (types.is_integer, types.is_floating, types.is_boolean)
_NAME = b"triptych_table"  # of the metadata; files of other programs have none


def table_bytes(name: str, frame: pd.DataFrame) -> memoryview:
    """Return a result table as a Parquet file that holds its name; the same frame gives the same bytes."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return parquet_bytes(table.replace_schema_metadata({**table.schema.metadata, _NAME: name}))


def read_table(path: Path, columns: Iterable[str] = (), texts: Collection[str] | None = None) -> pd.DataFrame:
    """Return the result table whose name a file bears, which must have some columns.

    `texts`: those of them that hold text, where the others hold numbers, or true and false; None: of any kind.
    """
    table = read_part(path)
    name = (table.schema.metadata or {}).get(_NAME, path.stem.encode()).decode(errors="replace")
    if name != path.stem:
        raise UserError(
            f"{path}: expected the table {path.stem}, found {name!s:.60}: put its own file back, or run --stage"
            " measure again"
        )
    frame = table.to_pandas()
    for column in columns:
        if column not in frame:
            raise UserError(f"{path}: expected a column `{column}`, found none: run --stage measure again")
        if texts is None:
            continue
        values, kind = frame[column].dropna(), table[column].type
        if values.empty:  # then it may have any type
            frame[column] = frame[column] if column in texts else frame[column].astype(float)
        elif not any(is_kind(kind) for is_kind in (_TEXT if column in texts else _NUMBERS)):
            raise _unlike(path, column, "text" if column in texts else "numbers", str(kind))
        elif column.startswith("p_") and column not in texts and not values.between(0, 1).all():
            raise _unlike(path, column, "numbers from 0 to 1", str(values[~values.between(0, 1)].iloc[0]))
    return frame


def _unlike(path: Path, name: str, wanted: str, found: str) -> UserError:
    return UserError(
        f"{path}: expected {wanted} in the column `{name}`, found {found:.60}: run --stage measure again"
    )
