"""Tables that users bring, as CSV, TSV, JSONL, XLSX or Parquet: read alike, each row with its location in the file.

A cell is a text in Unicode's form NFC, empty where the table has none. A header that is one of our names but for case,
spaces, hyphens is taken for it (``Setting `` for ``setting``); what is taken for what, and which columns nothing reads,
is said (`UserTable.notes`).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from probes.csv_text import csv_rows, read_text, unescape_formula
from probes.errors import UserError, parse_json, pip_line, printable
from probes.paths import expand, require_regular

ENDINGS = (".csv", ".tsv", ".jsonl", ".xlsx", ".parquet")
DELIMITERS = {".tsv": "\t,;"}  # looked for in a file of this ending, of equals the first
Source = str | os.PathLike[str] | pd.DataFrame


@dataclass(frozen=True)
class UserTable:
    """A table that a user brings: columns by Triptych's names, cells, and the location of each row in the file."""

    path: Path
    names: Sequence[str]  # of the columns, as the file has them
    columns: Mapping[str, int]  # position of each column, by our name of it where it has one
    _cells: pd.DataFrame | None  # None of Parquet, of which columns are read as they are asked for

    def cells(self, names: Sequence[str]) -> pd.DataFrame:
        """Return columns with cleaned cells; the index is each row's location in the file, such as "line 7"."""
        for name in names:
            self.require(name)
        if self._cells is None:
            stored = [self.names[self.columns[name]] for name in names]
            with opened_parquet(self.path) as file:
                rows = [f"row {number}" for number in range(1, file.metadata.num_rows + 1)]
                table = pd.DataFrame(file.read(stored).to_pydict(), rows, stored, dtype=object)
        else:
            table = self._cells.iloc[:, [self.columns[name] for name in names]]
        columns = {name: [_clean_cell(value) for value in table.iloc[:, n]] for n, name in enumerate(names)}
        return pd.DataFrame(columns, table.index, dtype=object)

    def text_cells(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return columns (default: all) as `cells` does; UserError for a cell that is no text or number."""
        table = self.cells(list(self.columns if names is None else names))
        for name, column in table.items():
            for location, value in column.items():
                if not isinstance(value, str):
                    raise UserError(
                        f"{self.path}: {location}: expected a text or a number in `{name}`, got {value!r:.60}:"
                        " write one"
                    )
        return table

    def require(self, name: str, remedy: str = "add it") -> None:
        """Raise a `UserError` if the table has no column of this name."""
        if name not in self.columns:
            listed = ", ".join(self.columns)[:120] or "none"
            raise UserError(f"{self.path}: expected a column `{name}`, found {listed}: {remedy}")

    def notes(self, used: Iterable[str]) -> list[str]:
        """Return messages on columns that are used under another name, and on columns that are not `used`."""
        read = {self.columns[name] for name in used}
        renamed = [
            f"{self.names[index]!r} as {name}"
            for name, index in self.columns.items()
            if index in read and name != self.names[index]
        ]
        unused = [
            name if name.strip() else "one without a name"
            for index, name in enumerate(self.names)
            if index not in read
        ]
        lines = {"columns taken": renamed, "columns not used": unused}
        return [f"{self.path.name}: {what}: {', '.join(names)}" for what, names in lines.items() if names]

    def print_notes(self, used: Iterable[str]) -> None:
        """Print the messages of `notes` on stderr."""
        for line in self.notes(used):
            print(printable(line), file=sys.stderr)


def open_table(source: Source, known: Sequence[str] = (), ending: str = "") -> UserTable:
    """Return the table of a CSV, TSV, JSONL, XLSX or Parquet file, or of a DataFrame.

    Of XLSX it is the first sheet (takes openpyxl); rows of Parquet are read later. `known` are our names of columns; of
    two that are spelled alike the first is taken. `ending` replaces the file's, such as ".csv".
    """
    path = Path("table") if isinstance(source, pd.DataFrame) else Path(source)
    ending, cells = ending or path.suffix.lower(), None
    if isinstance(source, pd.DataFrame):
        cells = source.set_axis([f"row {label}" for label in source.index])
    elif require_regular(path) and ending not in ENDINGS:
        raise UserError(
            f"{path}: expected a table ({', '.join(ENDINGS)}), got {ending or 'no ending'!r}: save it as CSV"
        )
    elif not path.is_file():
        raise UserError(f"{path}: expected a table, found none: check the path")
    elif ending == ".parquet":
        with opened_parquet(path) as file:
            # but the index that pandas stores
            names = [
                name for name in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", name)
            ]
    elif ending == ".jsonl":
        records = dict(_json_objects(path))
        cells = pd.DataFrame(list(records.values()), list(records), dtype=object)
    elif ending == ".xlsx":
        cells = _table_from_rows(path, _xlsx_rows(path))
    else:
        cells = _table_from_rows(path, csv_rows(path, DELIMITERS.get(ending, ",;\t")))
    if cells is not None:
        names = [str(name) for name in cells.columns]
    ours, columns = {plain_name(name): name for name in reversed(known)}, dict[str, int]()
    for index, name in enumerate(names):
        own = name if name in known else ours.get(plain_name(name), normalize("NFC", name).strip())
        if own in columns:
            first = names[columns[own]]
            both = f"{first!r:.60} and {name!r:.60}" if first != name else f"{name!r:.60}"
            raise UserError(f"{path}: expected every column once, got {both} twice: rename one")
        if own:
            columns[own] = index
    return UserTable(path, names, columns, cells)


def plain_name(name: str) -> str:
    """Return a column's name in lower case, with ``_`` for spaces and hyphens, to compare spellings.

    >>> plain_name(" File-Name"), plain_name("file name")
    ('file_name', 'file_name')
    """
    return re.sub(r"[\s_-]+", "_", normalize("NFC", name).strip().casefold())


def _clean_cell(value: Any) -> Any:
    """Return a cell as text (NFC), "" for a missing value; lists, mappings and bytes are not changed."""
    if isinstance(value, str):
        return normalize("NFC", value)
    if pd.api.types.is_scalar(value) and not isinstance(value, bytes):
        whole = isinstance(value, float) and value.is_integer()
        return "" if pd.isna(value) else str(int(value) if whole else value)
    return value


def _table_from_rows(path: Path, lines: list[tuple[str, list[Any]]]) -> pd.DataFrame:
    """Return the table of (location, cells) rows, the first being the header; without empty rows and columns."""
    lines = [(at, values) for at, values in lines if any(value not in ("", None) for value in values)]
    head = [str(_clean_cell(value)) for value in lines[0][1]] if lines else []
    rows = {}
    for at, values in lines[1:]:
        if len(values) < len(head) or any(values[len(head) :]):
            raise UserError(f"{path}: {at}: expected {len(head)} fields, got {len(values)}: mend it")
        rows[at] = values[: len(head)]
    table = pd.DataFrame(list(rows.values()), list(rows), head, dtype=object)
    full = [bool(name.strip()) or any(table.iloc[:, n] != "") for n, name in enumerate(head)]
    return table.loc[:, full]


def _xlsx_rows(path: Path) -> list[tuple[str, list[Any]]]:
    """Return (location, cells) of each row of the first sheet of an XLSX file, numbered as a spreadsheet does."""
    try:
        table = pd.read_excel(path, header=None, dtype=object, na_filter=False)
    except ImportError:
        raise UserError(
            f"{path}: expected the package openpyxl, found none: {pip_line('xlsx')}, or save it as CSV"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or 'damaged'}): check it") from None
    except Exception as error:  # whatever zip and XML make of a damaged file
        raise UserError(
            f"{path}: expected an XLSX table, got another ({type(error).__name__}): check it"
        ) from None
    return [
        (f"row {number}", [unescape_formula(value) if isinstance(value, str) else value for value in row])
        for number, row in enumerate(table.itertuples(index=False, name=None), 1)
    ]


def _json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (location, object) of each line of a JSONL file that is not empty; UserError if it is no object."""
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


@contextlib.contextmanager
def opened_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Yield an open Parquet file; any error of reading it inside the ``with`` block becomes a `UserError`."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path}: expected a Parquet file, got a damaged one ({message}): restore it"
        ) from None


def find_file(text: str, location: str, *folders: Path) -> Path | None:
    r"""Return the file that a table's cell names, from the first of `folders` that has it; None if none has.

    Backslashes of Windows are taken for slashes, and letters in either of Unicode's forms, as a Mac writes them.
    """
    for folder in folders if text else ():
        for written in dict.fromkeys((text, text.replace("\\", "/"))):
            for form in ("NFC", "NFD"):
                path = expand(normalize(form, written), location, folder)
                if path.is_file():
                    return path
    return None
