"""Captions out of files: COCO, Flickr30k, TextCaps, Conceptual Captions, and text, CSV, JSONL, Parquet of any kind.

A reader yields one caption after the other and says what is wrong with a file in one line. Text, CSV, JSONL and Parquet
are read as a stream; a JSON document is one value and is read whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.fields.yaml import show
from probes.json_text import parse_json
from probes.paths import require_regular
from probes.prompts.formats import CAPTION_COLUMNS, recognise, text_lines
from probes.prompts.user_tables import UserTable, open_table

Captions = Iterator[str]


def read_captions(path: Path, form: str = "auto", column: str | None = None) -> tuple[str, Captions]:
    """Return the format of a file and its captions, in their order; the iterator raises at a line that is wrong.

    A list of captions in `column` of a CSV, JSONL, JSON or Parquet file gives each of them.
    """
    require_regular(path)
    form = recognise(path, column) if form == "auto" else form
    if column and form not in _WITH_COLUMN:
        raise UserError(
            f"{path}: expected no column for captions of the format {form}, got {column!r}:"
            f" leave it out, or name another format ({', '.join(_WITH_COLUMN)})"
        )
    return form, _READERS[form](path, column)


# JSON documents


def _document(path: Path) -> Any:
    try:
        data = parse_json(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = path.read_bytes().count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}: line {line}: expected UTF-8 text, got other bytes: save as UTF-8") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: line {error.lineno}: expected JSON, got what is none in column {error.colno} ({error.msg}):"
            " restore the file, or name its `format`"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): check its permissions") from None
    return data


def _entries(path: Path, key: str, what: str) -> Iterator[tuple[int, dict]]:
    """The mappings in the list that stands under a key of a JSON document."""
    data = _document(path)
    entries = data.get(key) if isinstance(data, dict) else None
    if not isinstance(entries, list):
        raise UserError(
            f"{path}: expected {what}, a JSON object with a list `{key}`, got none: name its `format`"
        )
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise UserError(
                f"{path}: {key}[{index}]: expected an object, got {_short(entry)}: restore the file"
            )
        yield index, entry


def _listed(path: Path, key: str, field: str, what: str) -> Captions:
    for index, entry in _entries(path, key, what):
        if not isinstance(entry.get(field), str):
            raise UserError(
                f"{path}: {key}[{index}].{field}: expected a caption, got {_short(entry.get(field))}:"
                f" take {what}, or name its `format`"
            )
        yield entry[field]


def _coco(path: Path, column: str | None) -> Captions:
    """``captions_train2017.json`` and its like (Lin et al. 2014): ``annotations``, each with a ``caption``."""
    return _listed(path, "annotations", "caption", "COCO's captions (captions_*.json)")


def _textcaps(path: Path, column: str | None) -> Captions:
    """``TextCaps_0.1_train.json`` (Sidorov et al. 2020): ``data``, an entry a caption with its ``caption_str``."""
    return _listed(path, "data", "caption_str", "TextCaps (TextCaps_*.json)")


def _karpathy(path: Path, column: str | None) -> Captions:
    """``dataset_coco.json``, ``dataset_flickr30k.json`` (Karpathy and Fei-Fei 2015): sentences of each image."""
    for index, entry in _entries(path, "images", "Karpathy's splits (dataset_*.json)"):
        sentences = entry.get("sentences")
        for sentence in sentences if isinstance(sentences, list) else [None]:
            raw = sentence.get("raw") if isinstance(sentence, dict) else None
            if not isinstance(raw, str):
                raise UserError(
                    f"{path}: images[{index}].sentences: expected captions as `raw`, got {_short(sentence)}:"
                    " name its `format`"
                )
            yield raw


def _json(path: Path, column: str | None) -> Captions:
    data = _document(path)
    if not isinstance(data, list):
        raise UserError(
            f"{path}: expected a JSON list of captions or of objects, got {_short(data)}: write it so"
        )
    for index, entry in enumerate(data):
        yield from _values(entry, column, f"{path}: {show((index,))}")


def _jsonl(path: Path, column: str | None) -> Captions:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            entry = parse_json(line)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path}: line {number}: expected JSON, got what is none ({error.msg}): mend that line"
            ) from None
        yield from _values(entry, column, f"{path}: line {number}")


def _values(entry: Any, column: str | None, place: str) -> Captions:
    """The captions of an entry: a text, a list of texts, or an object that has either in a column."""
    if isinstance(entry, dict):
        name = column or next((name for name in CAPTION_COLUMNS if name in entry), None)
        if name is None or name not in entry:
            raise _no_column(place, list(entry), column)
        entry, place = entry[name], f"{place}: {name}"
    if entry is None:
        return
    for value in entry if isinstance(entry, list) else [entry]:
        if not isinstance(value, str):
            raise UserError(f"{place}: expected a caption, got {_short(value)}: name another `column`")
        yield value


def _no_column(place: str, names: Sequence[str], column: str | None) -> UserError:
    wanted = (
        f"a column {column!r}" if column else f"a column of captions ({', '.join(CAPTION_COLUMNS[:4])} ...)"
    )
    there = ", ".join(map(str, names[:8])) + (" ..." if len(names) > 8 else "")
    return UserError(f"{place}: expected {wanted}, got {there or 'none'}: name one with `column`")


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# Lines


def _lines(
    path: Path,
    column: str | None,
    caption_of: Callable[[str], str | None] = str,
    expected: str = "",
    skipped: int = 0,
) -> Captions:
    """The caption of every line that is not blank, after those that are skipped."""
    for number, line in islice(text_lines(path), skipped, None):
        if line.strip():
            caption = caption_of(line)
            if caption is None:
                raise UserError(
                    f"{path}: line {number}: expected {expected}, got {_short(line)}: mend that line"
                )
            yield caption


def _of_token(line: str) -> str | None:
    """Of ``results_20130124.token`` of Flickr30k (Young et al. 2014): ``1000092795.jpg#0``, a tab, the caption."""
    image, tab, caption = line.partition("\t")
    return caption if tab and "#" in image else None


def _of_conceptual(line: str) -> str | None:
    """Of ``Validation_GCC-1.1.0-Validation.tsv`` (Sharma et al. 2018): the caption, a tab, the address of its image."""
    caption, tab, _ = line.partition("\t")
    return caption if tab else None


def _of_flickr(line: str) -> str | None:
    """Of ``results.csv`` of Flickr30k: ``image_name| comment_number| comment``; a caption may hold further bars."""
    fields = line.split("|", 2)
    if len(fields) == 2:  # a line of the published file lacks a bar: "2199200615.jpg| 4   A dog runs ..."
        fields = [*fields[:1], *fields[-1].split(None, 1)]
    return fields[2] if len(fields) == 3 else None


def column_notes(path: Path, form: str, column: str | None) -> list[str]:
    """Lines on the columns of a table of captions that are taken for ours or not used; none of other formats."""
    if form not in _TABLES:
        return []
    table, name = _opened(path, column, f".{form}")
    return table.notes([name])


def _opened(path: Path, column: str | None, ending: str) -> tuple[UserTable, str]:
    """A table and the name of its column of captions."""
    table = open_table(path, [column] if column else CAPTION_COLUMNS, ending)
    name = column or next((name for name in CAPTION_COLUMNS if name in table.columns), None)
    if name is None or name not in table.columns:
        raise _no_column(str(path), list(table.columns), column)
    return table, name


def _table(path: Path, column: str | None, ending: str) -> Captions:
    """A table with a header, as `probes.prompts.user_tables` reads it; a cell may be a list of captions."""
    table, name = _opened(path, column, ending)
    for place, values in table.rows([name]):
        value = values[name]
        if isinstance(value, str) and value:
            yield from _cell(value, name)
        elif value:
            yield from _values(value, None, f"{path}: {place}: {name}")


def _cell(text: str, name: str) -> Captions:
    """A caption, or the several that ``flickr_annotations_30k.csv`` keeps as a JSON list in its column ``raw``."""
    if name == "raw" and text.startswith("["):
        try:
            captions = parse_json(text)
        except json.JSONDecodeError:
            captions = None
        if isinstance(captions, list) and all(isinstance(caption, str) for caption in captions):
            yield from captions
            return
    yield text


_TABLES = ("csv", "tsv", "xlsx", "parquet")
_WITH_COLUMN = ("csv", "tsv", "json", "jsonl", "xlsx", "parquet")
_READERS = {
    "coco": _coco,
    "textcaps": _textcaps,
    "karpathy": _karpathy,
    "flickr30k": partial(_lines, caption_of=_of_token, expected="image.jpg#0, a tab and a caption"),
    "flickr30k-csv": partial(_lines, caption_of=_of_flickr, expected="image| number| caption", skipped=1),
    "gcc": partial(_lines, caption_of=_of_conceptual, expected="a caption, a tab and an address"),
    "text": _lines,
    "json": _json,
    "jsonl": _jsonl,
    **{form: partial(_table, ending=f".{form}") for form in _TABLES},
}


def from_datasets(name: str, split: str | None, column: str | None) -> Captions:
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
