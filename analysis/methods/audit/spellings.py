"""Spellings in tables of labels: which are likely slips, and what ``--merge`` says of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from analysis.tables.answer_sheets import spelled_alike
from probes.errors import UserError

NEAR = (
    0.82  # similarity (difflib) from which a spelling that occurs once may be a slip; of male and female 0.8
)


def require_spellings(
    values: pd.Series, what: str, path: Path, merges: Mapping[str, str], *, near: bool = True
) -> None:
    """Refuse a spelling that is likely a slip of another, unless `merges` says what it is.

    Refused are spellings that differ from a more frequent one in spaces or capitals alone, and where `near` a spelling
    that occurs once and is similar to another.
    """
    counts, alike = values[values.str.strip() != ""].value_counts(), spelled_alike(values)
    for text, count in counts.items():
        if text in merges:
            continue
        like = alike.get(text)
        if like is None and text != text.strip():
            like = text.strip()
        if like is None and count == 1 and near:
            frequent = [name for name in counts.index if counts[name] > 1]
            like = next(iter(difflib.get_close_matches(text, frequent, 1, NEAR)), None)
        if like is not None:
            place, article = values.index[values == text][0], "an" if what[:1] in "aeiou" else "a"
            raise UserError(
                f"{path}: {place}: expected {article} {what} spelled as elsewhere, got {text!r} ({count} times), near"
                f" {like!r}: --merge {quoted(text, like)} merges, --merge {quoted(text, text)} keeps it"
            )


def quoted(text: str, other: str) -> str:
    """The argument of ``--merge`` as a shell takes it: ``females=female``, ``'male =male'``."""
    joined = f"{text}={other}"
    return f"'{joined}'" if any(letter.isspace() for letter in joined) else joined


def merges_of(texts: Sequence[str]) -> dict[str, str]:
    """The mapping from spellings to spellings that ``--merge`` gives."""
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not equals or not old.strip() or not new.strip():
            raise UserError(f"--merge: expected OLD=NEW, got {text!r}: write --merge females=female")
        if found.setdefault(old, new) != new:
            raise UserError(
                f"--merge: expected one spelling for {old!r}, got {found[old]!r} and {new!r}: leave one out"
            )
    return found
