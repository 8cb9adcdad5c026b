"""Labels that people gave to images: one form of table for a run and for any pictures, and its reader.

A row is one label: ``image``, ``label`` and, where there are several, ``annotator``. Of a run ``image`` is a sample and
``question`` says what was asked; of other pictures it is a path, and further columns say what they were made for.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from unicodedata import normalize

import pandas as pd

from probes.errors import UserError
from probes.stages.external_images.table import IMAGE_COLUMNS
from probes.user_tables import Source, UserTable, open_table

LABELS = ("label", "answer", "read_as")  # columns looked for in this order
ANNOTATOR = "annotator"
NEAR = 0.82  # similarity (difflib) from which a rare spelling may be a slip; of male and female 0.8


def fingerprint(image) -> str:
    """Sixteen hexadecimal digits of an image's pixels: it detects labels of another run's images."""
    return hashlib.sha256(repr(image.size).encode() + image.convert("RGB").tobytes()).hexdigest()[:16]


def open_labels(source: Source, known: Iterable[str] = ()) -> UserTable:
    """A table of labels, its columns by our names, or as the `known` ones are spelled."""
    return open_table(source, (*known, *IMAGE_COLUMNS, *LABELS, ANNOTATOR))


def find_column(table: UserTable, names: Iterable[str], what: str, remedy: str = "rename one") -> str:
    """The first of some columns that a table has; a UserError where it has none."""
    for name in names:
        if name in table.columns:
            return name
    names_of_table = ", ".join(table.columns)[:120] or "none"
    raise UserError(
        f"{table.path}: expected a column of {what} ({', '.join(names)}), found {names_of_table}: {remedy}"
    )


def read_columns(table: UserTable, columns: Mapping[str, str]) -> pd.DataFrame:
    """Columns of a table of labels as texts, by our names; empty where there is none.

    The index names file and row. A UserError where there is no row, or an answer is not signed beside others that are.
    """
    cells = table.text_cells(list(dict.fromkeys(filter(None, columns.values()))))
    if cells.empty:
        raise UserError(f"{table.path}: expected a row for each label, found none: write them")
    rows = pd.DataFrame({name: cells[column] if column else "" for name, column in columns.items()})
    rows.index = pd.Index([f"{table.path}: {place}" for place in cells.index])
    answered = rows["label"].str.strip() != ""
    unsigned = answered & (rows[ANNOTATOR].str.strip() == "")
    if unsigned.any() and not unsigned[answered].all():
        raise UserError(
            f"{rows.index[unsigned][0]}: expected the name of the annotator, found none: write it"
        )
    return rows


def require_once(rows: pd.DataFrame, keys: list[str], remedy: str = "leave one out") -> None:
    """Refuse two labels of one annotator for the same."""
    twice = rows.duplicated([*keys, ANNOTATOR])
    if twice.any():
        row = rows[twice].iloc[0]
        whose = f"of {row[ANNOTATOR]!r} " if row[ANNOTATOR] else ""
        what = ", ".join(str(row[name]) for name in keys)
        raise UserError(
            f"{rows.index[twice][0]}: expected one label {whose}for {what}, got another: {remedy}"
        )


def require_spellings(
    values: pd.Series, what: str, merges: Mapping[str, str] | None = None, *, near: bool = False
) -> None:
    """Refuse a text that differs from a more frequent one in spaces, capitals or Unicode form alone.

    Where `near` also one that occurs once and is similar to another. `merges` says what a spelling is taken for, and
    makes it the remedy; the index of `values` names file and row.
    """
    counts, alike = values[values.str.strip() != ""].value_counts(), spelled_alike(values)
    for text, count in counts.items():
        if text in (merges or {}):
            continue
        like = alike.get(text)
        if like is None and merges is not None and text != text.strip():
            like = text.strip()
        if like is None and count == 1 and near:
            frequent = [name for name in counts.index if counts[name] > 1]
            like = next(iter(difflib.get_close_matches(text, frequent, 1, NEAR)), None)
        if like is not None:
            place, article = values.index[values == text][0], "an" if what[:1] in "aeiou" else "a"
            remedy = "write one of them everywhere"
            if merges is not None:
                remedy = f"--merge {_quoted(text, like)} merges, --merge {_quoted(text, text)} keeps it"
            raise UserError(
                f"{place}: expected {article} {what} spelled as elsewhere, got {text!r} ({count} times), near"
                f" {like!r}: {remedy}"
            )


def spelled_alike(texts: Iterable[str]) -> dict[str, str]:
    """Each text that differs from a more frequent one in case, spaces or Unicode form alone, and that one."""
    counts, first = Counter(text for text in texts if text.strip()), dict[str, str]()
    ordered = sorted(counts, key=lambda text: (counts[text], text), reverse=True)
    like = {
        text: first.setdefault(" ".join(normalize("NFKC", text).casefold().split()), text) for text in ordered
    }
    return {text: other for text, other in like.items() if text != other}


def _quoted(text: str, other: str) -> str:
    """The argument of ``--merge`` as a shell takes it: ``females=female``, ``'male =male'``."""
    joined = f"{text}={other}"
    return f"'{joined}'" if any(letter.isspace() for letter in joined) else joined
