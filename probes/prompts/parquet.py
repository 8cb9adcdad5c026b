"""Columns of Parquet files that others wrote, read in batches of rows once their types are seen to be those wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probes.errors import UserError
from probes.fields.types import shown

ROWS = 10_000  # read at a time
# what reading a damaged or a hostile file ends with
DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError)


def open_parquet(path: Path) -> pq.ParquetFile:
    """Return an opened Parquet file."""
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
    except DAMAGE as error:
        raise damaged(path, error) from None
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UserError(f"{path}: expected every column once, got {shown(twice)} twice: rename one")
    return file


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is text, in any of its layouts; one of nothing at all may be."""
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a type is bytes, in any of its layouts."""
    types = pa.types
    return (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def batches(
    path: Path, file: pq.ParquetFile, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """Yield the number of the first row from 1, and the values by column, of one batch of rows after the other."""
    start = 1
    try:
        for batch in file.iter_batches(batch_size=ROWS, columns=list(columns)):
            yield start, batch.to_pydict()
            start += batch.num_rows
    except DAMAGE as error:
        raise damaged(path, error, f" after row {start - 1}") from None


def damaged(path: Path, error: Exception, where: str = "") -> UserError:
    """Return the line that says that a file is no whole Parquet."""
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(f"{path}: expected a Parquet file, got a damaged one{where} ({message}): restore it")
