"""Captions out of files by their ending: tables, JSON as of COCO and Karpathy, text with a caption a line.

What is wrong with a file is said in one line.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from probes.csv_text import read_text
from probes.errors import UserError
from probes.fields.types import shown
from probes.json_text import parse_json

# Looked for in this order where no column is named.
CAPTION_COLUMNS = (
    *("caption", "captions", "sentence", "sentences", "text", "raw", "caption_str", "comment", "prompt"),
)
_LISTS = ("annotations", "data", "images")  # of COCO, TextCaps and Karpathy's splits
# what stands beside a caption in Flickr30k's token file, and in Conceptual Captions
_IMAGE, _ADDRESS = re.compile(r"\S+#\d+\t"), re.compile(r"\thttps?://\S+\s*$")


class CaptionFile(NamedTuple):
    """A file of captions: its format, the captions in their order, and lines on columns that are not used."""

    format: str
    captions: Iterator[str]
    notes: Sequence[str] = ()


def open_captions(path: Path, column: str | None = None) -> CaptionFile:
    """Return the captions of a file; the iterator raises at an entry that is wrong.

    A list of captions in `column` of a table, or of an object in JSON, gives each of them.
    """
    from probes.user_tables import ENDINGS  # not before: pandas

    if path.is_dir():
        raise UserError(f"{path}: expected a file of captions, got a folder: name the file")
    ending = path.suffix.lower()
    if ending == ".json":
        return CaptionFile("json", _json_captions(path, column))
    binary = ending in (".parquet", ".xlsx")
    lines = [] if binary else read_text(path).split("\n")
    begins = next((line for line in lines if line.strip()), "")
    marked = _IMAGE.match(begins) or _ADDRESS.search(begins)
    if column or binary or (not marked and (ending in ENDINGS or _is_header(begins))):
        return _table(path, column, ending if ending in ENDINGS else ".csv")
    plain = (_ADDRESS.sub("", _IMAGE.sub("", line.rstrip("\r"), count=1)) for line in lines)
    return CaptionFile("text", (line for line in plain if line.strip()))


def _is_header(line: str) -> bool:
    from probes.user_tables import plain_name

    names = {plain_name(cell.strip(' "\r')) for cell in re.split("[\t,;]", line)}
    return len(names) > 1 and not names.isdisjoint(CAPTION_COLUMNS)


def _table(path: Path, column: str | None, ending: str) -> CaptionFile:
    from probes.user_tables import open_table

    table = open_table(path, [column] if column else CAPTION_COLUMNS, ending)
    name = column or next((name for name in CAPTION_COLUMNS if name in table.columns), None)
    if name is None or name not in table.columns:
        raise _no_column(str(path), list(table.columns), column)
    captions = (
        caption
        for place, value in table.cells([name])[name].items()
        if value
        for caption in _values(value, None, f"{path}: {place}: {name}")
    )
    return CaptionFile(ending[1:], captions, table.notes([name]))


def _json_captions(path: Path, column: str | None) -> Iterator[str]:
    """The captions of a list, or of the list in an object: COCO's ``annotations``, Karpathy's ``images``."""
    try:
        data = parse_json(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: line {error.lineno}: expected JSON, got what is none in column {error.colno} ({error.msg}):"
            " restore the file"
        ) from None
    name = next((name for name in _LISTS if isinstance(data, dict) and isinstance(data.get(name), list)), "")
    entries = data[name] if name else data
    if not isinstance(entries, list):
        raise UserError(
            f"{path}: expected captions as COCO's or Karpathy's JSON ({', '.join(_LISTS)}) or a JSON list, got"
            f" {shown(data)}: write it so"
        )
    for index, entry in enumerate(entries):
        yield from _values(entry, column, f"{path}: {name}[{index}]")


def _values(entry: Any, column: str | None, place: str) -> Iterator[str]:
    """The captions of an entry: a text, an object that has one in a column, or a list of either."""
    if isinstance(entry, dict):
        name = column or next((name for name in CAPTION_COLUMNS if name in entry), None)
        if name is None or name not in entry:
            raise _no_column(place, list(entry), column)
        entry, place = entry[name], f"{place}: {name}"
    if isinstance(entry, str) and entry.startswith('["'):  # as flickr_annotations_30k.csv has them
        with contextlib.suppress(json.JSONDecodeError):
            entry = parse_json(entry)
    for value in entry if isinstance(entry, list) else [] if entry is None else [entry]:
        if isinstance(value, dict) and isinstance(entry, list):
            yield from _values(value, None, place)
        elif isinstance(value, str):
            yield value
        else:
            raise UserError(f"{place}: expected a caption, got {shown(value)}: name another `column`")


def _no_column(place: str, names: Sequence[str], column: str | None) -> UserError:
    wanted = (
        f"a column {column!r}" if column else f"a column of captions ({', '.join(CAPTION_COLUMNS[:4])} ...)"
    )
    listed = ", ".join(map(str, names[:8])) + (" ..." if len(names) > 8 else "")
    return UserError(f"{place}: expected {wanted}, got {listed or 'none'}: name one with `column`")


def from_datasets(name: str, split: str | None, column: str | None) -> Iterator[str]:
    """Return the captions of a data set of the Hugging Face hub, or of a folder, by the package `datasets`."""
    try:
        import datasets
    except ImportError:
        raise UserError(
            f"{name}: expected the package `datasets` for the format datasets, found it not installed:"
            " pip install datasets"
        ) from None
    try:
        loaded = datasets.load_dataset(name, split=split, streaming=True)
        if isinstance(loaded, dict):
            if len(loaded) > 1:
                raise UserError(
                    f"{name}: expected one split, got {', '.join(map(str, loaded))}: name one with `split`"
                )
            loaded = next(iter(loaded.values()))
        for number, row in enumerate(loaded, 1):
            yield from _values(row, column, f"{name}: row {number}")
    except UserError:
        raise
    except Exception as error:  # whatever the package raises: no network, no such name, a script it refuses
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{name}: cannot be read by `datasets` ({message}): check name, split and network"
        ) from None
