"""Read the reference tables: every one through this reader, every fault as one line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from probes.errors import UserError

FOLDER = Path(__file__).parent / "reference"


def read_table(
    name: str, columns: Sequence[str], *, numeric: Sequence[str] = (), folder: Path | None = None
) -> pd.DataFrame:
    """Read the columns that are needed of a reference table; refused where it is missing, damaged or no such table.

    Empty cells of ``numeric`` columns become NaN; the others stay text, as printed.
    """
    path = (folder or FOLDER) / f"{name}.csv"
    remedy = "restore it from the repository"
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: expected a reference table, but there is no such file: {remedy}") from None
    except (OSError, ValueError) as error:  # pandas' parser errors and bad UTF-8 are ValueErrors
        raise UserError(f"{path}: expected a CSV table in UTF-8, got {error}: {remedy}") from None
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise UserError(
            f"{path}: expected the columns {', '.join(columns)}, but {', '.join(missing)} is not there: "
            f"{remedy}"
        )
    table = table[list(columns)].copy()
    for column in numeric:
        numbers = pd.to_numeric(table[column].replace("", None), errors="coerce")
        wrong = numbers.isna() & (table[column] != "")
        if wrong.any():
            row = int(wrong.idxmax())
            raise UserError(
                f"{path}: line {row + 2}: {column}: expected a number, got {table[column][row]!r}: {remedy}"
            )
        table[column] = numbers
    if table.empty:
        raise UserError(f"{path}: expected rows under the header, got none: {remedy}")
    return table


def read_values(name: str, *columns: str) -> pd.Series:
    """One column of numbers of a reference table, the last that is named, indexed by the others."""
    *index, value = columns
    return read_table(name, columns, numeric=[value]).set_index(index)[value]
