"""Prompts out of files: captions, of which some are left out for a reason that is counted, and tables.

Captions are told by a file's ending: tables, JSON as of COCO and Karpathy, text with a caption a line. Which of them
are neutral is a rule of Wu et al. 2025 (`probes.prompts.neutral`), which are made so the same rule reversed
(`probes.prompts.people`). What is wrong with a file is said in one line.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from probes.csv_text import csv_bytes, read_text
from probes.errors import UserError, missing_package, parse_json, printable
from probes.fields.types import CHARACTERS, KeyPath, shown
from probes.paths import expand
from probes.prompts import sets
from probes.prompts.forms import LEVEL_COLUMNS, PromptSource, PromptTable, parse_form
from probes.prompts.neutral import HUMAN, NO_PERSON, exclusion_reason, replace_person
from probes.prompts.people import NAME, SEVERAL, Replacement, describe, find_person, person_name, render
from probes.prompts.prompt import ID, LEVELS, IndicatorForms, Prompt, normalize_text

DATASETS = "datasets"
ONE_PERSON = "one person"  # the rule that makes captions neutral
DUPLICATE = "said before"
LONG = "too long"
UNPRINTABLE = "control characters"
JUDGED = 10 * CHARACTERS  # characters of a text that is looked through; who writes more writes no caption
_REASONS, _SHOWN = 3, 80  # reasons why captions are left out that are named, and characters of an example
# Looked for in this order where no column is named.
CAPTION_COLUMNS = (
    *("caption", "captions", "sentence", "sentences", "text", "raw", "caption_str", "comment", "prompt"),
)
TEXT_COLUMNS = ("text", "prompt")
_LISTS = ("annotations", "data", "images")  # of COCO, TextCaps and Karpathy's splits
# what stands beside a caption in Flickr30k's token file, and in Conceptual Captions
_IMAGE, _ADDRESS = re.compile(r"\S+#\d+\t"), re.compile(r"\thttps?://\S+\s*$")


@dataclass
class LoadedPrompts:
    """Prompts from captions with counts of those left out, by reason; for a table, only notes on unused columns."""

    source: str = ""  # of captions; empty where they are none
    format: str = "text"
    file: Path | None = None
    notes: Sequence[str] = ()  # lines on columns that are not used
    read: int = 0  # captions in all
    prompts: list[Prompt] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)  # how many, by reason
    examples: dict[str, str] = field(default_factory=dict)  # the first of each reason
    # for which words captions were left out as `HUMAN` or `SEVERAL`
    words: Counter[str] = field(default_factory=Counter)
    rows: list[dict[str, Any]] = field(default_factory=list)  # a row of `table` for each caption

    def summary(self) -> list[str]:
        """Return lines for users: counts of captions used and, by reason, left out; notes on unused columns."""
        if not self.source:
            return [*self.notes]
        count, out = len(self.prompts), self.dropped.total()
        are, out_are = ("is" if number == 1 else "are" for number in (count, out))
        lines = [f"prompts: {count:,} of {self.read:,} captions of {self.source} {are} taken"]
        lines[0] += f", {out:,} {out_are} left out" if out else ""
        reasons = self.dropped.most_common()
        for reason, number in reasons[:_REASONS]:
            words = ", ".join(f"{word} {count:,}" for word, count in self.words.most_common(3))
            named = f": {words}" if reason in (HUMAN, SEVERAL) else ""
            lines.append(f"  {number:,} {reason}{named}, such as “{self.examples[reason][:_SHOWN]}”")
        if rest := sum(number for _, number in reasons[_REASONS:]):
            lines[-1] += f"; {rest:,} for other reasons"
        if changed := sum(bool(row["replaced"]) for row in self.rows):
            lines.insert(
                1, f"  {changed:,} of them made neutral, such as “{self.examples[ONE_PERSON][:_SHOWN]}”"
            )
        return [*lines, *self.notes]

    def table(self) -> bytes:
        """Return a CSV file with a row for each caption: what was replaced in it or why it was left out; its texts."""
        texts = {prompt.id: prompt.texts for prompt in self.prompts}
        import pandas as pd  # not before: it takes time

        columns = ["number", ID, "caption", "replaced", "left_out", *next(iter(texts.values()))]
        rows = [{**row, **texts.get(row[ID], {})} for row in self.rows]
        return csv_bytes(pd.DataFrame(rows, columns=columns))


def load_captions(
    source: PromptSource, words: IndicatorForms, folder: Path, reference: str = ""
) -> LoadedPrompts:
    """Return prompts from the captions of a file (path relative to `folder`) or Hub data set, with counts."""
    sets.require_supported_options(source, {})
    name = source.from_
    if source.format == DATASETS:
        captions = from_datasets(name, source.split, source.column)
        result = replace(neutral_prompts(captions, words, source, reference), source=name, format=DATASETS)
    else:
        if source.split is not None:
            raise UserError(
                f"{name}: expected a split of a data set alone, got {source.split!r} for a file:"
                " leave it out, or name the format datasets"
            )
        path = expand(name, "prompts.from", folder)
        if not path.exists():
            raise UserError(
                f"{path}: expected a file of captions or a set ({', '.join(sets.names())}), found none: check the"
                " path, name the format datasets, or go on with a run's own prompts (triptych run runs/NAME)"
            )
        kind, captions, notes = open_captions(path, source.column)
        result = neutral_prompts(captions, words, source, reference)
        result = replace(result, source=str(path), format=kind, file=path, notes=notes)
    if not result.read:
        raise UserError(
            f"{result.source}: expected captions, found none ({result.format}): check the file and its ending"
        )
    if not result.prompts:
        why = "; ".join(f"{count} {reason}" for reason, count in result.dropped.most_common(3))
        raise UserError(
            f"{result.source}: expected a caption of one person, or of people of one gender, found"
            f" none in {result.read} ({why}): take other captions, or name their `column`"
        )
    return result


def neutral_prompts(
    captions: Iterable[str], words: IndicatorForms, source: PromptSource, reference: str = ""
) -> LoadedPrompts:
    """Return a prompt for each distinct caption taken by the rule in `source`, and counts of others by reason.

    The words of every indicator (by `words`, for a person and for people) take the place of people's; that of the
    `reference` stands before no profession. White space is made single. Two captions are the same where they differ in
    case and in a full stop at their end alone; the first is kept. An id has the caption's number in the file from 1. A
    text encoder cannot read captions of more than `max_words` of `source` to their end.
    """
    result = LoadedPrompts()
    seen: set[str] = set()
    for result.read, caption in enumerate(captions, 1):
        text = " ".join(caption.split())
        key = text.lower().rstrip(" .")
        long = len(text) > CHARACTERS or text.count(" ") >= source.max_words
        reason, word = exclusion_reason(text, source.human_words) if len(text) <= JUDGED else (LONG, "")
        edits: list[Replacement] = []
        if source.rule == ONE_PERSON and not long:
            if key in seen:  # before it is tagged, which takes time
                reason, word = DUPLICATE, ""
            elif reason in (HUMAN, NO_PERSON):
                edits, reason, word = find_person(text)
            elif not reason and (word := person_name(text)):
                reason = NAME
        if not reason and long:
            reason = LONG
        elif not reason and printable(text) != text:
            reason = UNPRINTABLE
        elif not reason and key in seen:
            reason = DUPLICATE
        about = {"number": result.read, ID: "" if reason else f"c{result.read:06d}", "caption": text[:JUDGED]}
        replaced = "" if reason else describe(text, edits)
        result.rows.append(
            {**about, "replaced": replaced, "left_out": f"{reason}: {word}" if word else reason}
        )
        if reason or replaced:
            result.examples.setdefault(reason or ONE_PERSON, text[:JUDGED])
        if reason:
            result.dropped[reason] += 1
            if reason in (HUMAN, SEVERAL):
                result.words[word] += 1
            continue
        seen.add(key)
        texts = {
            name: render(text, edits, *forms, name == reference, source.articles)
            if edits
            else replace_person(text, *forms, articles=source.articles, forms=source.human_words)
            for name, forms in words.items()
        }
        result.prompts.append(Prompt(texts, id=f"c{result.read:06d}"))
    return result


def open_captions(path: Path, column: str | None = None) -> tuple[str, Iterator[str], Sequence[str]]:
    """Return a caption file's format, captions and notes on unused columns; an error if it has no caption column.

    The captions are an iterator, which raises `UserError` at an entry that is wrong.
    A list of captions in `column` of a table, or of an object in JSON, gives each of them.
    """
    from probes.user_tables import ENDINGS, open_table, plain_name  # not before: pandas

    if path.is_dir():
        raise UserError(f"{path}: expected a file of captions, got a folder: name the file")
    ending = path.suffix.lower()
    if ending == ".json":
        return "json", _json_captions(path, column), ()
    binary = ending in (".parquet", ".xlsx")
    lines = [] if binary else read_text(path).split("\n")
    first_line = next((line for line in lines if line.strip()), "")
    has_id_or_url = _IMAGE.match(first_line) or _ADDRESS.search(first_line)
    header = {plain_name(cell.strip(' "\r')) for cell in re.split("[\t,;]", first_line)}
    has_header = len(header) > 1 and not header.isdisjoint(CAPTION_COLUMNS)
    known = ending in ENDINGS
    if not (column or binary or (not has_id_or_url and (known or has_header))):
        plain = (_ADDRESS.sub("", _IMAGE.sub("", line.rstrip("\r"), count=1)) for line in lines)
        return "text", (line for line in plain if line.strip()), ()
    table = open_table(path, [column] if column else CAPTION_COLUMNS, ending if known else ".csv")
    name = column or next((name for name in CAPTION_COLUMNS if name in table.columns), None)
    if name is None or name not in table.columns:
        raise _missing_column_error(str(path), list(table.columns), column)
    captions = (
        caption
        for location, value in table.cells([name])[name].items()
        if value
        for caption in _entry_captions(value, None, f"{path}: {location}: {name}")
    )
    return ending[1:] if known else "csv", captions, table.notes([name])


def _json_captions(path: Path, column: str | None) -> Iterator[str]:
    """Yield the captions in a JSON list, or in the list under ``annotations``, ``data`` or ``images`` of an object."""
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
        yield from _entry_captions(entry, column, f"{path}: {name}[{index}]")


def _entry_captions(entry: Any, column: str | None, location: str) -> Iterator[str]:
    """Yield the captions of a JSON value: a text, an object with a caption field or a list of these; else an error."""
    if isinstance(entry, dict):
        name = column or next((name for name in CAPTION_COLUMNS if name in entry), None)
        if name is None or name not in entry:
            raise _missing_column_error(location, list(entry), column)
        entry, location = entry[name], f"{location}: {name}"
    if isinstance(entry, str) and entry.startswith('["'):  # as flickr_annotations_30k.csv has them
        with contextlib.suppress(json.JSONDecodeError):
            entry = parse_json(entry)
    for value in entry if isinstance(entry, list) else [] if entry is None else [entry]:
        if isinstance(value, dict) and isinstance(entry, list):
            yield from _entry_captions(value, None, location)
        elif isinstance(value, str):
            yield value
        else:
            raise UserError(f"{location}: expected a caption, got {shown(value)}: name another `column`")


def _missing_column_error(location: str, names: Sequence[str], column: str | None) -> UserError:
    """Return the `UserError` for a table or object that lacks the column of captions."""
    wanted = (
        f"a column {column!r}" if column else f"a column of captions ({', '.join(CAPTION_COLUMNS[:4])} ...)"
    )
    listed = ", ".join(map(str, names[:8])) + (" ..." if len(names) > 8 else "")
    return UserError(f"{location}: expected {wanted}, got {listed or 'none'}: name one with `column`")


def from_datasets(name: str, split: str | None, column: str | None) -> Iterator[str]:
    """Yield the captions of a Hub data set or folder, read by the library `datasets`; a `UserError` if unreadable."""
    try:
        import datasets
    except ImportError:
        raise missing_package(name, "datasets", "data") from None
    try:
        loaded = datasets.load_dataset(name, split=split, streaming=True)
        if isinstance(loaded, dict):
            if len(loaded) > 1:
                raise UserError(
                    f"{name}: expected one split, got {', '.join(map(str, loaded))}: name one with `split`"
                )
            loaded = next(iter(loaded.values()))
        for number, row in enumerate(loaded, 1):
            yield from _entry_captions(row, column, f"{name}: row {number}")
    except UserError:
        raise
    except Exception as error:  # whatever the package raises: no network, no such name, a script it refuses
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{name}: cannot be read by `datasets` ({message}): check name, split and network"
        ) from None


def read_table(
    section: Mapping[str, Any], folder: Path, at: KeyPath
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a (text, id, levels) mapping for each row of a table of prompts, and notes on columns not used.

    `section` has the fields of `PromptTable`, at `at` in the configuration; a relative path begins in `folder`.
    """
    from probes.user_tables import open_table  # not before: pandas

    source = parse_form(PromptTable, section, at)
    named = [name for name in (source.text, *(source.levels or ())) if name]
    path = expand(source.table, "prompts.table", folder)
    table = open_table(path, (*named, *TEXT_COLUMNS, ID, *LEVEL_COLUMNS))
    text = source.text or next((name for name in TEXT_COLUMNS if name in table.columns), TEXT_COLUMNS[0])
    levels = source.levels
    if levels is None:
        levels = [name for name in table.columns if name not in (text, ID)]
    for name in (text, *levels):
        table.require(name, f"name it in prompts.{'text' if name == text else 'levels'}")
    used = list(dict.fromkeys([text, *({ID} & {*table.columns}), *levels]))
    rows: list[dict[str, Any]] = []
    first: dict[str, str] = {}
    for location, values in table.text_cells(used).to_dict("index").items():
        if not values[text].strip():
            raise UserError(
                f"{path}: {location}: expected a text in `{text}`, got {shown(values[text])}: write it"
            )
        row_levels = {name: level for name in levels if (level := values[name].strip())}
        key = repr((normalize_text(values[text]), row_levels))
        if key in first:
            raise UserError(
                f"{path}: {location}: expected prompts that stand once, got that of {first[key]}: keep one"
            )
        first[key] = location
        about = {ID: values.get(ID, "").strip(), LEVELS: row_levels}
        rows.append({"text": values[text], **{name: value for name, value in about.items() if value}})
    if not rows:
        raise UserError(f"{path}: expected prompts, found none: write one in each row")
    return rows, table.notes(used)
