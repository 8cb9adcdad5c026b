"""Tables of labels that people wrote: CSV, XLSX or Parquet, all cells as texts, each row with its place."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from probes.csv_text import csv_rows
from probes.errors import UserError
from probes.storage.paths import require_regular

KINDS = (".csv", ".xlsx", ".parquet")
NEAR = (
    0.82  # similarity (difflib) from which a spelling that occurs once may be a slip; of male and female 0.8
)


def name_of(table: str | os.PathLike[str] | pd.DataFrame) -> Path:
    """Return the path of a table, or what stands for it in messages where it is a DataFrame."""
    return Path("table" if isinstance(table, pd.DataFrame) else table)


def read_texts(table: str | os.PathLike[str] | pd.DataFrame) -> pd.DataFrame:
    """Return a table as texts, empty where a cell is; its index names the rows (``line 7``).

    Parameters
    ----------
    table : path or DataFrame
        CSV (UTF-8), XLSX (the first sheet; takes openpyxl) or Parquet; of a DataFrame the index names the rows.

    Raises
    ------
    UserError
        It is none of these, cannot be read, has a column twice or no row.
    """
    path = name_of(table)
    if isinstance(table, pd.DataFrame):
        table = _texts(table.set_axis([f"row {name}" for name in table.index]))
    else:
        table = _read(path)
    names = [str(name) for name in table.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: expected every column once, got {twice!r} twice: rename one")
    if table.empty:
        raise UserError(f"{path}: expected a row for each label, found none: write them")
    return table.set_axis(names, axis=1)


def _read(path: Path) -> pd.DataFrame:
    suffix = path.suffix.lower()
    if suffix not in KINDS:
        raise UserError(
            f"{path}: expected a table ({', '.join(KINDS)}), got {suffix or 'no ending'!r}: save it as CSV"
        )
    if not require_regular(path).is_file():
        raise UserError(f"{path}: expected a table of labels, found none: check the path")
    return _csv(path) if suffix == ".csv" else _stored(path)


def _csv(path: Path) -> pd.DataFrame:
    rows = csv_rows(path)
    head = rows[0][1] if rows else []
    for number, row in rows:
        if len(row) != len(head):
            raise UserError(f"{path}: line {number}: expected {len(head)} fields, got {len(row)}: mend it")
    places = [f"line {number}" for number, _ in rows[1:]]
    return pd.DataFrame([row for _, row in rows[1:]], places, head, dtype=object)


def _stored(path: Path) -> pd.DataFrame:
    """A table of XLSX or Parquet."""
    excel = path.suffix.lower() == ".xlsx"
    try:
        table = pd.read_excel(path, dtype=object) if excel else pd.read_parquet(path)
    except ImportError:
        raise UserError(
            f"{path}: expected openpyxl to read XLSX, found none: pip install openpyxl, or save it as CSV"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or 'damaged'}): check it") from None
    except Exception as error:  # whatever zip, XML and Parquet make of a damaged file
        kind = "an XLSX" if excel else "a Parquet"
        raise UserError(
            f"{path}: expected {kind} table, got another ({type(error).__name__}): check it"
        ) from None
    first = 2 if excel else 0  # as a spreadsheet counts them
    table.index = pd.Index([f"row {number}" for number in range(first, first + len(table))])
    return _texts(table)


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype(object).map(_text).astype(object)


def _text(value: Any) -> str:
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is pd.NA else str(value)


def require_spellings(values: pd.Series, what: str, path: Path, merges: Mapping[str, str]) -> None:
    """Refuse a spelling that is likely a slip of another, unless `merges` says what it is.

    Refused are spellings that differ from a more frequent one in spaces or capitals alone, and a spelling that occurs
    once and is similar to another.

    Raises
    ------
    UserError
        Names the row, the spelling and the nearest one.
    """
    counts = values[values.str.strip() != ""].value_counts()
    for text, count in counts.items():
        if text in merges:
            continue
        others = [name for name, number in counts.items() if name != text and (number, name) > (count, text)]
        plain = {" ".join(name.split()).casefold(): name for name in reversed(others)}
        like = plain.get(" ".join(text.split()).casefold())
        if like is None and text != text.strip():
            like = text.strip()
        if like is None and count == 1:
            frequent = [name for name in others if counts[name] > 1]
            like = next(iter(difflib.get_close_matches(text, frequent, 1, NEAR)), None)
        if like is not None:
            place = values.index[values == text][0]
            raise UserError(
                f"{path}: {place}: expected a {what} spelled as elsewhere, got {text!r} ({count} times), near"
                f" {like!r}: --merge {quoted(text, like)} merges, --merge {quoted(text, text)} keeps it"
            )


def quoted(text: str, other: str) -> str:
    """Return the argument of ``--merge`` as a shell takes it.

    Examples
    --------
    >>> quoted("females", "female"), quoted("male ", "male")
    ('females=female', "'male =male'")
    """
    joined = f"{text}={other}"
    return f"'{joined}'" if any(letter.isspace() for letter in joined) else joined


def merges_of(texts: Sequence[str]) -> dict[str, str]:
    """Return what ``--merge`` says, as a mapping from spellings to spellings.

    Raises
    ------
    UserError
        A text has no ``=``, or one spelling is merged with two.
    """
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals or not old.strip() or not new.strip():
            raise UserError(f"--merge: expected OLD=NEW, got {text!r}: write --merge females=female")
        if found.setdefault(old, new) != new:
            raise UserError(
                f"--merge: expected one spelling for {old!r}, got {found[old]!r} and {new!r}: leave one out"
            )
    return found
