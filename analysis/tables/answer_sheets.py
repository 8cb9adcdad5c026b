"""Sheets that people filled in: their answers as texts, and names of annotators that are spelled in one way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from unicodedata import normalize

import pandas as pd

from probes.errors import UserError
from probes.user_tables import open_table

OF_SHEETS = ("image", "question", "asked", "answers")  # columns of our sheets that nobody fills in


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


def read_sheet(path: Path, columns: Sequence[str], answer: str) -> pd.DataFrame:
    """Return the columns of a sheet that people filled in, all cells as texts; its index are the places of the rows.

    A column ``annotator`` that is not there is empty; rows that nobody signed and nobody answered are left out where
    others are signed. `answer` is the column that people filled in.
    """
    table = open_table(path, columns)
    sheet = table.text_cells([name for name in columns if name != "annotator" or name in table.columns])
    table.print_notes({*sheet.columns, *(name for name in OF_SHEETS if name in table.columns)})
    sheet = sheet.assign(annotator=sheet.get("annotator", ""))[list(columns)]
    named, answered = (sheet[name].str.strip() != "" for name in ("annotator", answer))
    require_annotators(sheet["annotator"], path, answered)
    return sheet[named | answered] if named.any() else sheet
