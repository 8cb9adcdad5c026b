"""Tables as CSV: no cell is a formula to the spreadsheet that opens it, and what is read back is what was written.

A spreadsheet calculates a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or an end of line, and some formulas
run programs. A text of others that begins so (a prompt, a label, the name of a file) gets an apostrophe before it, as
OWASP's page on CSV injection advises; a number stays a number. `csv_rows` takes the apostrophe off again. A text that
began with apostrophes and such a character gets one more, so that nothing is lost.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.errors import UserError
from probes.paths import require_regular

if TYPE_CHECKING:
    import pandas as pd

# also in full width, which some spreadsheets read the same way
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NAMED = re.compile(r'"?sep=([,;\t|])[^\r\n]*\r?\n', re.IGNORECASE)
CELL = 1 << 24  # characters that a cell may have


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV in UTF-8, without index; texts that a spreadsheet would calculate get an apostrophe."""
    import pandas as pd  # not before: captions are read without it

    table, quoting = table.copy(deep=False), csv.QUOTE_MINIMAL
    for index, kind in enumerate(table.dtypes):
        if pd.api.types.is_object_dtype(kind) or isinstance(kind, (pd.StringDtype, pd.CategoricalDtype)):
            texts = table.iloc[:, index].astype(object)
            safe = [escape_formula(value) for value in texts]
            if any(one is not other for one, other in zip(safe, texts)):
                table.isetitem(index, pd.Series(safe, index=table.index, dtype=object))
            # which Python quotes from 3.13 on alone
            if any(isinstance(text, str) and "\r" in text for text in safe):
                quoting = csv.QUOTE_NONNUMERIC
    header: list[Hashable] = [escape_formula(name) for name in table.columns]
    text = table.to_csv(index=False, lineterminator="\n", header=header, quoting=quoting)
    return text.encode("utf-8", "backslashreplace")  # halves of surrogate pairs have no UTF-8


def escape_formula(value: Any) -> Any:
    """Return a cell's value, with an apostrophe before a text that a spreadsheet would calculate as a formula.

    >>> [escape_formula(value) for value in ("=1+1", "-0.5", "- a dog", "a dog", "'=1", -3)]
    ["'=1+1", '-0.5', "'- a dog", 'a dog', "''=1", -3]
    """
    risky = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if risky else value


def unescape_formula(text: str) -> str:
    """Return a cell's text without the apostrophe that `escape_formula` put before it."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without byte-order mark; a `UserError` if it cannot be read or decoded."""
    try:
        return require_regular(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}: line {line}: expected UTF-8 text, got other bytes: save it as UTF-8"
        ) from None


def csv_rows(path: Path, delimiters: str = ",") -> list[tuple[str, list[str]]]:
    """Return (location, cells) of each row of a CSV file in UTF-8, such as ("line 7", ["a dog", "2"]).

    The first row names the columns. The delimiter is the one that divides the first line into most cells, of equals the
    first, or that a line ``sep=;`` before it names (Excel).
    """
    csv.field_size_limit(CELL)
    text = read_text(path)
    try:
        if named := _NAMED.match(text):
            delimiters = named[1]
        line = re.match(r"[\r\n]*([^\r\n]*)", text)[1][: CELL // 2]  # type: ignore[index]
        cells = {one: next(csv.reader([line], delimiter=one), []) for one in delimiters}
        best = max(delimiters, key=lambda one: sum('"' not in cell for cell in cells[one]))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=best, strict=True)
        rows = [(f"line {reader.line_num}", [*map(unescape_formula, row)]) for row in reader if row]
        return rows[1:] if named else rows
    except csv.Error as error:
        at = f"line {reader.line_num}"
        raise UserError(f"{path}: {at}: expected a CSV file, got a damaged one ({error}): mend it") from None
