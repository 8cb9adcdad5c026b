"""Rows of text tables that others wrote: CSV, TSV and JSONL in UTF-8, with the line that each stands on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from probes.config.types import shown
from probes.errors import UserError
from probes.json_text import parse_json
from probes.prompts import parquet
from probes.storage.paths import require_regular


def text_rows(file: Path) -> tuple[list[str], Any]:
    """Return the columns of a CSV, TSV or JSONL file, and a function that iterates over its rows.

    The function takes the columns that are wanted, all of which it gives, and yields where a row stands and its values
    by column.

    Raises
    ------
    UserError
        The file cannot be read, or is not what its ending says.
    """
    try:
        text = require_regular(file).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: expected UTF-8 text, got other bytes: save it as UTF-8") from None
    if file.suffix.lower() == ".jsonl":
        records = list(_json_lines(file, text))
        return list(dict.fromkeys(key for _, record in records for key in record)), lambda _: iter(records)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter="\t" if file.suffix.lower() == ".tsv" else ",", strict=True
    )
    try:
        head = next(reader, [])
        rows = [(reader.line_num, values) for values in reader if values]
    except csv.Error as error:
        raise UserError(f"{file}: line {reader.line_num}: expected a CSV table ({error}): mend it") from None
    parquet.require_once(f"{file}: line 1", head)
    for number, values in rows:
        if len(values) != len(head):
            raise UserError(f"{file}: line {number}: expected {len(head)} fields, got {len(values)}: mend it")
    return head, lambda _: ((f"line {number}", dict(zip(head, values))) for number, values in rows)


def _json_lines(file: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{file}: line {number}: expected a JSON object, got {shown(line)}: mend it")
        yield f"line {number}", record
