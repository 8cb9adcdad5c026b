"""Prompts that somebody else wrote: plain texts without a word that changes, each with levels of any names.

``prompts: ["a CEO in an office"]``, ``[{text: a CEO in an office, profession: CEO}]``, or the rows of a table
(`probes.prompts.table`). A run of such prompts has one indicator, ``plain`` where none is named, and compares no words.
Levels may stand beside the text or under ``levels``, also where the text holds ``{person}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probes.config.checks import ABOUT
from probes.fields.types import PERSON, as_text, fail, nearest, shown
from probes.prompts import table
from probes.prompts.templates import is_crossed

TEXT, LEVELS = "text", "levels"
INDICATOR = "plain"  # of prompts that name no word of an indicator


def defaults(
    data: Mapping[str, Any], folder: Path, reference: str, usual: Sequence[str] = ()
) -> dict[str, Any]:
    """Return plain data of a configuration whose prompts are mappings of one form, a table's rows among them.

    Where there is one indicator, or none and no prompt holds ``{person}``, texts are those of this indicator, which
    is the reference, and there are no contrasts. `folder` is where the path of a table begins, `reference` that where
    `data` says none, and `usual` the indicators where it names none, whose names no level may have.
    """
    found = dict(data)
    written = data.get("prompts")
    crossed = is_crossed(written)
    at: tuple[Any, ...] = ("prompts", "texts") if crossed else ("prompts",)
    texts = written.get("texts") if crossed else written
    if isinstance(texts, Mapping) and "table" in texts:
        texts = table.resolve(texts, folder, at)
    names = _names(data.get("indicators"))
    if isinstance(texts, list):
        texts = [_flat(one, names or usual, (*at, index)) for index, one in enumerate(texts)]
        if not names and texts and not any(map(_has_place, texts)) and any(map(_is_text, texts)):
            found |= {"indicators": {INDICATOR: {"word": INDICATOR}}, "reference": INDICATOR, "contrasts": []}
            names = [INDICATOR]
        if len(names) == 1:
            _require_alike(texts, at)
            texts = [_of(one, names[0]) for one in texts]
    if len(names) == 1 and "reference" not in data and names[0] != reference:
        found.setdefault("reference", names[0])
    if texts is not None:
        found["prompts"] = {**written, "texts": texts} if crossed else texts
    return found


def _names(indicators: Any) -> list[str]:
    return [str(name) for name in indicators] if isinstance(indicators, Mapping) else []


def _is_text(prompt: Any) -> bool:
    """Return whether a prompt is a text, or a mapping with one."""
    return isinstance(prompt, str) or (isinstance(prompt, Mapping) and isinstance(prompt.get(TEXT), str))


def _has_place(prompt: Any) -> bool:
    """Return whether braces stand in a prompt's text, as in ``{person}`` and what is meant for it."""
    text = prompt.get(TEXT, "") if isinstance(prompt, Mapping) else prompt
    return isinstance(text, str) and bool("{" in text or "}" in text or nearest(PERSON, text))


def _flat(prompt: Any, names: Sequence[str], at: tuple[Any, ...]) -> Any:
    """A prompt with the levels that stand beside its text under ``levels``; anything else as it is."""
    if not isinstance(prompt, Mapping) or not isinstance(prompt.get(TEXT), str) or TEXT in names:
        return prompt
    beside = {name: value for name, value in prompt.items() if name not in (TEXT, *ABOUT, *names)}
    if not beside or any(name in prompt for name in names):
        return dict(prompt)
    for name, level in beside.items():
        if not isinstance(level, str) or not level.strip():
            raise fail(f"expected a level, got {shown(level)}: {as_text(level)}", at=(*at, name))
    under = prompt.get(LEVELS, {})
    twice = next((name for name in beside if isinstance(under, Mapping) and name in under), None)
    if twice is not None:
        raise fail("expected one level, got another beside the text: take one out", at=(*at, LEVELS, twice))
    rest = {name: value for name, value in prompt.items() if name not in beside}
    return {**rest, LEVELS: {**under, **beside}} if isinstance(under, Mapping) else rest


def _require_alike(texts: Sequence[Any], at: tuple[Any, ...]) -> None:
    """Refuse texts of which some hold a place in braces and some do not."""
    kinds = [(_has_place(one), index) for index, one in enumerate(texts) if _is_text(one)]
    with_it = [index for place, index in kinds if place]
    without = [index for place, index in kinds if not place]
    if with_it and without:
        raise fail(
            f"expected {PERSON} in every text or in none, got none here and one in [{with_it[0]}]: write them alike",
            at=(*at, without[0]),
        )


def _of(prompt: Any, name: str) -> Any:
    """A plain text as that of an indicator; anything else as it is."""
    if not _is_text(prompt) or _has_place(prompt):
        return prompt
    if isinstance(prompt, str):
        return {name: prompt}
    return {name if key == TEXT else key: value for key, value in prompt.items()}
