"""The short form of indicators: ``feminine: [woman, lady, female]``, a word with its synonyms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from probes.fields.types import as_text, fail, shown

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def expand_synonyms(data: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """Return plain data of a configuration in which each list of words is written out; `reference` is its default name.

    The first word is the indicator's; the others follow all indicators that are written, as synonym controls of theirs,
    each under the name that its word makes.
    """
    words = data.get("indicators")
    if not isinstance(words, Mapping) or not any(isinstance(entry, list) for entry in words.values()):
        return dict(data)
    reference = data.get("reference", reference)
    sides, synonyms = dict(words), {}
    for side, entry in words.items():
        if not isinstance(entry, list):
            continue
        if not entry:
            raise fail("expected a word, and its synonyms, got none: write one", at=("indicators", side))
        sides[side], *others = (_fields(one, ("indicators", side, at)) for at, one in enumerate(entry))
        for at, fields in enumerate(others, 1):
            name = _name(fields["word"], f"{side}_{at + 1}")
            if name in words or name in synonyms:
                raise fail(
                    f"expected a synonym with a name of its own, got {fields['word']!r}, and `{name}` is there: choose"
                    f" another, or write it as `{side}_{at + 1}: {{word: ..., control: {side}}}`",
                    at=("indicators", side, at),
                )
            synonyms[name] = {**fields, "control": True if side == reference else side}
    return {**data, "indicators": {**sides, **synonyms}}


def _fields(entry: Any, at: tuple) -> dict[str, Any]:
    """An entry of a list as fields of an indicator."""
    if isinstance(entry, str):
        entry = {"word": entry}
    if not isinstance(entry, Mapping) or not isinstance(entry.get("word"), str):
        raise fail(f"expected a word, got {shown(entry)}: {as_text(entry)}", at=at)
    if "control" in entry:
        raise fail(
            "expected no `control` in a list, whose first word the others are synonyms of: take it out",
            at=(*at, "control"),
        )
    return dict(entry)


def _name(word: str, otherwise: str) -> str:
    """The name that a word makes; `otherwise` where it has no letters that a name may have."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")
    return name if word.isascii() and _NAME.fullmatch(name) else otherwise
