"""Tables that users bring, as CSV, TSV, JSONL, XLSX or Parquet: read alike, each row with its place in the file.

A cell is a text in Unicode's form NFC, empty where the table has none. A header that is one of our names but for case,
spaces, hyphens is taken for it (``Setting `` for ``setting``); what is taken for what, and which columns nothing reads,
is said (`UserTable.notes`).
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from probes.csv_text import csv_rows, read_text, restored
from probes.errors import UserError, printable
from probes.json_text import parse_json
from probes.paths import expand, require_regular

ENDINGS = (".csv", ".tsv", ".jsonl", ".xlsx", ".parquet")
DELIMITERS = {".tsv": "\t,;"}  # looked for in a file of this ending, of equals the first
# what reading a damaged or a hostile Parquet file ends with
DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError)
Source = str | os.PathLike[str] | pd.DataFrame
Rows = Iterable[tuple[str, Sequence[Any]]]  # each with its place


@dataclass(frozen=True)
class UserTable:
    """A table of a user."""

    path: Path
    names: tuple[str, ...]  # of the columns, as the file has them
    columns: Mapping[str, int]  # place of each column, by our name of it where it has one
    _rows: Rows | Callable[[list[str]], Rows]  # of Parquet the columns of these names
    file: pq.ParquetFile | None = None  # of a Parquet table, for its types

    def rows(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place of each row (``line 7``) and its cells by column: texts, or lists, mappings, bytes."""
        places = [self.columns[name] for name in names]
        if callable(self._rows):
            rows, places = self._rows([self.names[place] for place in places]), list(range(len(places)))
        else:
            rows = self._rows
        for at, values in rows:
            yield at, {name: _cell(values[place]) for name, place in zip(names, places)}

    def frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return columns as texts, by default all; the index are the places of the rows."""
        names = list(self.columns if names is None else names)
        for name in names:
            self.require(name)
        rows = dict(self.rows(names))
        for place, values in rows.items():
            for name, value in values.items():
                if not isinstance(value, str):
                    raise UserError(
                        f"{self.path}: {place}: expected a text or a number in `{name}`, got {value!r:.60}: write one"
                    )
        cells = [[*values.values()] for values in rows.values()]
        return pd.DataFrame(cells, list(rows), names, dtype=object)

    def require(self, name: str, remedy: str = "add it") -> None:
        """Refuse a table without a column."""
        if name not in self.columns:
            listed = ", ".join(self.columns)[:120] or "none"
            raise UserError(f"{self.path}: expected a column `{name}`, found {listed}: {remedy}")

    def notes(self, used: Iterable[str]) -> list[str]:
        """Return lines on columns that are taken for ours, and on those that are not among the `used` ones."""
        read = {self.columns[name] for name in used}
        renamed = [
            f"{self.names[place]!r} as {name}"
            for name, place in self.columns.items()
            if place in read and name != self.names[place]
        ]
        unused = [name or "one without a name" for place, name in enumerate(self.names) if place not in read]
        lines = {"columns taken": renamed, "columns not used": unused}
        return [f"{self.path.name}: {what}: {', '.join(names)}" for what, names in lines.items() if names]

    def say(self, used: Iterable[str]) -> None:
        """Say on stderr what `notes` returns."""
        for line in self.notes(used):
            print(printable(line), file=sys.stderr)


def open_table(source: Source, known: Sequence[str] = (), ending: str = "") -> UserTable:
    """Return a table with its columns, of Parquet so far without its rows.

    Of XLSX it is the first sheet (takes openpyxl). `known` are our names of columns; of two that are spelled alike the
    first is taken. `ending` is what the file is, by default its own.
    """
    path = Path("table") if isinstance(source, pd.DataFrame) else Path(source)
    ending = ending or path.suffix.lower()
    if isinstance(source, pd.DataFrame):
        names = [str(name) for name in source.columns]
        by_place = [(f"row {row[0]}", row[1:]) for row in source.itertuples(name=None)]
        return UserTable(path, tuple(names), _columns(path, names, known), by_place)
    if require_regular(path) and ending not in ENDINGS:
        raise UserError(
            f"{path}: expected a table ({', '.join(ENDINGS)}), got {ending or 'no ending'!r}: save it as CSV"
        )
    if not path.is_file():
        raise UserError(f"{path}: expected a table, found none: check the path")
    if ending == ".parquet":
        file = open_parquet(path)
        # but the index that pandas stores
        names = [name for name in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", name)]
        columns = _columns(path, names, known)
        return UserTable(path, tuple(names), columns, lambda asked: _parquet_rows(path, file, asked), file)
    if ending == ".jsonl":
        records = list(_json_lines(path))
        names = list(dict.fromkeys(key for _, record in records for key in record))
        rows: Rows = [(place, [record.get(name) for name in names]) for place, record in records]
    elif ending == ".xlsx":
        names, rows = _from_lines(path, _xlsx_lines(path))
    else:
        lines = csv_rows(path, "mend it", DELIMITERS.get(ending, ",;\t"))
        names, rows = _from_lines(path, [(f"line {number}", cells) for number, cells in lines])
    return UserTable(path, tuple(names), _columns(path, names, known), rows)


def plain_name(name: str) -> str:
    """Return what two spellings of a column's name have in common.

    >>> plain_name(" File-Name"), plain_name("file name")
    ('file_name', 'file_name')
    """
    return re.sub(r"[\s_-]+", "_", normalize("NFC", name).strip().casefold())


def _columns(path: Path, names: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    ours = {plain_name(name): name for name in reversed(known)}
    found: dict[str, int] = {}
    for place, name in enumerate(names):
        own = name if name in known else ours.get(plain_name(name), normalize("NFC", name).strip())
        if own in found:
            raise _twice(path, names[found[own]], name)
        if own:
            found[own] = place
    return found


def _twice(path: Path, first: str, name: str) -> UserError:
    both = f"{first!r:.60} and {name!r:.60}" if first != name else f"{name!r:.60}"
    return UserError(f"{path}: expected every column once, got {both} twice: rename one")


def _cell(value: Any) -> Any:
    """A text in NFC, or a number as text; empty where there is none."""
    if isinstance(value, str):
        return normalize("NFC", value)
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, (Number, Decimal, datetime.date, datetime.time)):
        if value != value:
            return ""
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    return value


def _from_lines(path: Path, lines: list[tuple[str, list[Any]]]) -> tuple[list[str], Rows]:
    """Names and rows of lines of cells, the first of which names the columns; empty lines and columns are left out."""
    lines = [(at, values) for at, values in lines if any(value not in ("", None) for value in values)]
    head = [str(_cell(value)) for value in lines[0][1]] if lines else []
    for at, values in lines[1:]:
        if len(values) < len(head) or any(values[len(head) :]):
            raise UserError(f"{path}: {at}: expected {len(head)} fields, got {len(values)}: mend it")
    full = [
        place
        for place, name in enumerate(head)
        if name.strip() or any(values[place] not in ("", None) for _, values in lines[1:])
    ]
    names = [head[place].strip() and head[place] for place in full]
    return names, [(at, [values[place] for place in full]) for at, values in lines[1:]]


def _xlsx_lines(path: Path) -> list[tuple[str, list[Any]]]:
    """Lines of the first sheet of an XLSX file, numbered as a spreadsheet does."""
    try:
        table = pd.read_excel(path, header=None, dtype=object, na_filter=False)
    except ImportError:
        raise UserError(
            f"{path}: expected openpyxl to read XLSX, found none: pip install openpyxl, or save it as CSV"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or 'damaged'}): check it") from None
    except Exception as error:  # whatever zip and XML make of a damaged file
        raise UserError(
            f"{path}: expected an XLSX table, got another ({type(error).__name__}): check it"
        ) from None
    return [
        (f"row {number}", [restored(value) if isinstance(value, str) else value for value in row])
        for number, row in enumerate(table.itertuples(index=False, name=None), 1)
    ]


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{path}: line {number}: expected a JSON object, got {line!r:.60}: mend it")
        yield f"line {number}", record


def open_parquet(path: Path) -> pq.ParquetFile:
    """Return an opened Parquet file."""
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
    except DAMAGE as error:
        raise damaged(path, error) from None
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _twice(path, twice, twice)
    return file


def _parquet_rows(path: Path, file: pq.ParquetFile, names: list[str]) -> Rows:
    try:
        columns = file.read(list(dict.fromkeys(names))).to_pydict()
    except DAMAGE as error:
        raise damaged(path, error) from None
    rows = zip(*(columns[name] for name in names)) if names else [()] * file.metadata.num_rows
    return ((f"row {number}", values) for number, values in enumerate(rows, 1))


def damaged(path: Path, error: Exception) -> UserError:
    """Return the line that says that a file is no whole Parquet."""
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(f"{path}: expected a Parquet file, got a damaged one ({message}): restore it")


def find_file(text: str, place: str, *folders: Path) -> Path | None:
    r"""Return the file that a cell names, from the first folder where it is; None if none.

    Backslashes of Windows are taken for slashes, and letters in either of Unicode's forms, as a Mac writes them.
    """
    for folder in folders if text else ():
        for written in dict.fromkeys((text, text.replace("\\", "/"))):
            for form in ("NFC", "NFD"):
                path = expand(normalize(form, written), place, folder)
                if path.is_file():
                    return path
    return None
