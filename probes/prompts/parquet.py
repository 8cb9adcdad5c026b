"""Prompts and captions in Parquet files, read in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probes.errors import UserError

ROWS = 10_000  # read at a time


def open_parquet(path: Path) -> pq.ParquetFile:
    """Return an opened Parquet file.

    Raises
    ------
    UserError
        It is damaged, or no Parquet.
    """
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, error) from None


def batches(
    path: Path, file: pq.ParquetFile, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """Yield the number of the first row from 1, and the values by column, of one batch of rows after the other."""
    start = 1
    try:
        for batch in file.iter_batches(batch_size=ROWS, columns=list(columns)):
            yield start, batch.to_pydict()
            start += batch.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, error, f" after row {start - 1}") from None


def damaged(path: Path, error: Exception, where: str = "") -> UserError:
    """Return the line that says that a file is no whole Parquet."""
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(f"{path}: expected a Parquet file, got a damaged one{where} ({said}): restore it")
