"""Result tables as Parquet files that say which table they hold, so that none is read for another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from probes.errors import UserError
from probes.parts import parquet_bytes, read_part

_NAME = b"triptych_table"  # of the metadata; files of other programs and of earlier versions have none


def table_bytes(name: str, frame: pd.DataFrame) -> memoryview:
    """Return a result table as a Parquet file that holds its name; the same frame gives the same bytes."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return parquet_bytes(table.replace_schema_metadata({**table.schema.metadata, _NAME: name}))


def read_table(path: Path, columns: Iterable[str] = ()) -> pd.DataFrame:
    """Return the result table whose name a file bears, which must have some columns.

    Raises
    ------
    UserError
        The file is damaged, or holds another table, or lacks a column: another program or version wrote it.
    """
    table = read_part(path)
    found = (table.schema.metadata or {}).get(_NAME, path.stem.encode()).decode(errors="replace")
    if found != path.stem:
        raise UserError(
            f"{path}: expected the table {path.stem}, found {found!s:.60}: put its own file back, or run --stage"
            " measure again"
        )
    if missing := [name for name in columns if name not in table.column_names]:
        raise UserError(f"{path}: expected a column `{missing[0]}`, found none: run --stage measure again")
    return table.to_pandas()
