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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pandas as pd
import pyarrow.parquet as pq

from probes.csv_text import csv_rows, read_text, restored
from probes.errors import UserError, printable
from probes.fields.types import shown
from probes.json_text import parse_json
from probes.paths import expand, require_regular
from probes.prompts import parquet

ENDINGS = (".csv", ".tsv", ".jsonl", ".xlsx", ".parquet")
DELIMITERS = {".tsv": "\t,;"}  # looked for in a file of this ending, of equals the first
OF_SHEETS = (
    "image",
    "question",
    "asked",
    "answers",
)  # columns of our sheets for the eye of who fills them in
Source = str | os.PathLike[str] | pd.DataFrame
Rows = Iterable[tuple[str, Sequence[Any]]]


@dataclass(frozen=True)
class UserTable:
    """A table of a user."""

    path: Path
    names: tuple[str, ...]  # of the columns, as the file has them
    columns: Mapping[str, int]  # place of each column, by our name of it where it has one
    _rows: Callable[[list[int]], Rows]
    file: pq.ParquetFile | None = None  # of a Parquet table, for its types

    def rows(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place of each row (``line 7``) and its cells by column: texts, or lists, mappings, bytes."""
        for place, values in self._rows([self.columns[name] for name in names]):
            yield place, dict(zip(names, map(_cell, values)))

    def frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return columns as texts, by default all; the index are the places of the rows."""
        names = list(self.columns if names is None else names)
        for name in names:
            self.require(name)
        found = list(self.rows(names))
        for place, values in found:
            for name, value in values.items():
                if not isinstance(value, str):
                    raise UserError(
                        f"{self.path}: {place}: expected a text or a number in `{name}`, got {shown(value)}: write one"
                    )
        return pd.DataFrame(
            [[*values.values()] for _, values in found], [place for place, _ in found], names, dtype=object
        )

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
    """Return a table with its columns, so far without its rows where these take long.

    Of XLSX it is the first sheet (takes openpyxl). `known` are our names of columns; of two that are spelled alike the
    first is taken. `ending` is what the file is, by default its own.
    """
    path, file = Path("table") if isinstance(source, pd.DataFrame) else Path(source), None
    ending = ending or path.suffix.lower()
    if isinstance(source, pd.DataFrame):
        names = [str(name) for name in source.columns]
        rows = _picker([(f"row {row[0]}", row[1:]) for row in source.itertuples(name=None)])
    elif require_regular(path) and ending not in ENDINGS:
        raise UserError(
            f"{path}: expected a table ({', '.join(ENDINGS)}), got {ending or 'no ending'!r}: save it as CSV"
        )
    elif not path.is_file():
        raise UserError(f"{path}: expected a table, found none: check the path")
    elif ending == ".parquet":
        file = parquet.open_parquet(path)
        names, rows = _stored(path, file)
    elif ending == ".jsonl":
        records = list(_records(path))
        names = list(dict.fromkeys(key for _, record in records for key in record))
        rows = _picker([(place, [record.get(name) for name in names]) for place, record in records])
    elif ending == ".xlsx":
        names, rows = _grid(path, _sheet(path))
    else:
        lines = csv_rows(path, "mend it", DELIMITERS.get(ending, ",;\t"))
        names, rows = _grid(path, [(f"line {number}", cells) for number, cells in lines])
    return UserTable(path, tuple(names), _columns(path, names, known), rows, file)


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
            both = (
                f"{shown(names[found[own]])} and {shown(name)}" if names[found[own]] != name else shown(name)
            )
            raise UserError(f"{path}: expected every column once, got {both} twice: rename one")
        if own:
            found[own] = place
    return found


def _cell(value: Any) -> Any:
    """A text in NFC, or a number as text; empty where there is none."""
    if isinstance(value, str):
        return normalize("NFC", value)
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, (Number, Decimal, datetime.date, datetime.time)):
        if value != value:
            return ""
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)  # type: ignore[arg-type]
    return value


def _picker(rows: list[tuple[str, Sequence[Any]]]) -> Callable[[list[int]], Rows]:
    return lambda places: ((at, [values[place] for place in places]) for at, values in rows)


def _grid(path: Path, lines: list[tuple[str, list[Any]]]) -> tuple[list[str], Callable[[list[int]], Rows]]:
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
    return names, _picker([(at, [values[place] for place in full]) for at, values in lines[1:]])


def _sheet(path: Path) -> list[tuple[str, list[Any]]]:
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


def _stored(path: Path, file: pq.ParquetFile) -> tuple[list[str], Callable[[list[int]], Rows]]:
    stored = file.schema_arrow.names
    names = [name for name in stored if not re.fullmatch(r"__index_level_\d+__", name)]  # of pandas

    def rows(places: list[int]) -> Rows:
        wanted = [names[place] for place in places]
        for start, values in parquet.batches(path, file, list(dict.fromkeys(wanted))):
            size = len(next(iter(values.values()), ()))
            for number in range(size):
                yield f"row {start + number}", [values[name][number] for name in wanted]

    return names, rows


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    text = read_text(path)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{path}: line {number}: expected a JSON object, got {shown(line)}: mend it")
        yield f"line {number}", record


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


def numbers(texts: pd.Series, path: Path) -> pd.Series:
    """Return a column as numbers, NaN where a cell is none; a comma is a point where it cannot part thousands."""
    texts = texts.str.strip()
    comma = texts.str.contains(",", regex=False)
    if comma.any():
        decimal = texts.str.fullmatch(r"[+-]?\d+,\d+") & ~texts.str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}")
        if not decimal.any() or texts.str.contains(".", regex=False).any():
            place = texts.index[comma][0]
            raise UserError(
                f"{path}: {place}: expected numbers as 0.5 or 1500 in `{texts.name}`, got {texts[place]!r:.40}, whose"
                " comma may be a point or part thousands: write it without"
            )
        texts = texts.str.replace(",", ".", regex=False)
    return pd.to_numeric(texts, errors="coerce").astype(float)


def spelled_alike(texts: Iterable[str]) -> dict[str, str]:
    """Return each text that differs from a more frequent one in case, spaces or Unicode form alone, and that one."""
    counts, first = Counter(text for text in texts if text.strip()), dict[str, str]()
    ordered = sorted(counts, key=lambda text: (counts[text], text), reverse=True)
    like = {
        text: first.setdefault(" ".join(normalize("NFKC", text).casefold().split()), text) for text in ordered
    }
    return {text: other for text, other in like.items() if text != other}


def require_annotators(names: pd.Series, path: Path, answered: pd.Series | None = None) -> None:
    """Refuse a name of an annotator that is spelled in two ways, in a file or in several (`path` is the last).

    Of a file, with the places of its rows as index and where `answered`, also an answer without a name beside others.
    """
    for name, like in spelled_alike(names).items():
        raise UserError(
            f"{path}: expected an annotator spelled as elsewhere, got {name!r} ({(names == name).sum()} times), near"
            f" {like!r}: write one of them everywhere"
        )
    if answered is not None:
        require_named(names, path, answered)


def require_named(names: pd.Series, path: Path, answered: pd.Series) -> None:
    """Refuse an answer without the name of its annotator where others have one."""
    blank = (names.str.strip() == "") & answered
    if blank.any() and not blank[answered].all():
        raise UserError(
            f"{path}: {names.index[blank][0]}: expected the name of the annotator, found none: write it"
        )


def read_answers(path: Path, columns: Sequence[str], answer: str) -> pd.DataFrame:
    """Return the columns of a sheet that people filled in, all cells as texts; its index are the places of the rows.

    A column ``annotator`` that is not there is empty; rows that nobody signed and nobody answered are left out where
    others are signed. `answer` is the column that people filled in.
    """
    table = open_table(path, columns)
    sheet = table.frame([name for name in columns if name != "annotator" or name in table.columns])
    table.say({*sheet.columns, *(name for name in OF_SHEETS if name in table.columns)})
    sheet = sheet.assign(annotator=sheet.get("annotator", ""))[list(columns)]
    named, answered = (sheet[name].str.strip() != "" for name in ("annotator", answer))
    require_annotators(sheet["annotator"], path, answered)
    return sheet[named | answered] if named.any() else sheet
