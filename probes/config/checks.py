"""Indicators in their short form, contrasts, and checks between fields of ``triplets.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from probes.fields.types import IMAGES, PERSON, as_text, fail, shown
from probes.prompts.prompt import ABOUT, normal

FEWEST = 6  # prompts, of fewer than which no direction is told
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
INDICATORS = 40  # every pair of them is compared at every site and step


def check_indicators(indicators: Mapping[str, Any], reference: str, prompts: Sequence[Any]) -> None:
    """Refuse names and controls that do not fit, and words that do not differ."""
    names = list(indicators)
    at = ("indicators",)
    if not names:
        raise fail(f"expected an indicator for {PERSON} in the prompts, got none: add one", at=at)
    for name in names:
        if not _NAME.fullmatch(name) or name in ABOUT:
            raise fail(
                f"expected a name of letters, digits and _ (not {', '.join(ABOUT)}), got `{name}`: rename it",
                at=at,
            )
    if reference not in names:
        raise fail(f"expected one of {names}, got `{reference}`: choose one", at=("reference",))
    if indicators[reference].control:
        raise fail(
            "the reference cannot be its own control: take `control` out", at=("indicators", reference)
        )
    for name, indicator in indicators.items():
        others = [n for n in names if n != name and not indicators[n].control]
        if isinstance(indicator.control, str) and indicator.control not in others:
            raise fail(
                f"expected true (the reference) or one of {others}, got `{indicator.control}`:"
                " name what the word can stand for",
                at=("indicators", name, "control"),
            )
    _check_words({name: indicator.word for name, indicator in indicators.items()})


def _check_words(words: Mapping[str, str]) -> None:
    """A word that stands twice would be compared with itself. Text encoders do not tell case or spaces apart."""
    first: dict[str, str] = {}
    for name, word in words.items():
        key = normal(word)
        if key in first:
            raise fail(
                f"expected a word that differs, got {word!r}, which is that of `{first[key]}`: choose another",
                at=("indicators", name),
            )
        first[key] = name


def default_contrasts(indicators: Mapping[str, Any], reference: str) -> list[list[str]]:
    """Return every pair of indicators that are neither the reference nor a control, each against the reference.

    Pairs stand in the order of the indicators; of masculine and feminine the masculine comes first, so that a
    positive gap is one towards it.
    """
    others = [name for name, indicator in indicators.items() if name != reference and not indicator.control]
    pairs = [list(pair) for pair in combinations(others, 2)]
    return [pair if pair != ["feminine", "masculine"] else pair[::-1] for pair in pairs]


def check_contrasts(
    contrasts: Sequence[Sequence[str]], indicators: Mapping[str, Any], reference: str
) -> None:
    """Refuse contrasts that are no pair of two others than the reference, or stand twice."""
    others = [name for name in indicators if name != reference]
    first: dict[frozenset[str], int] = {}
    for index, pair in enumerate(contrasts):
        at = ("contrasts", index)
        if len(pair) != 2 or len(set(pair)) != 2 or not set(pair) <= set(others):
            raise fail(f"expected two different ones of {others}, got {pair}: choose two", at=at)
        if frozenset(pair) in first:
            raise fail(f"the same pair as contrasts[{first[frozenset(pair)]}]: keep one", at=at)
        first[frozenset(pair)] = index


def check_size(prompts: int, seeds: int, indicators: int) -> None:
    """Refuse a run of more images than any machine generates."""
    if (images := prompts * seeds * indicators) > IMAGES:
        raise fail(
            f"expected at most {IMAGES} images, got {images} (prompts x seeds x indicators):"
            " take fewer, or several runs",
            at=("seeds",) if seeds > prompts else ("prompts",),
        )


def check_stop(config: Any) -> None:
    """Refuse a question of a run that has no such gap, or whose prompts are no sample that can be looked at early."""
    at = ("stop",)
    if config.images is not None:
        raise fail("expected images that this run draws, got those of another program: leave it out", at=at)
    if not config.contrasts:
        raise fail(
            "expected words that are compared, got no contrast: give three indicators, or leave it out", at=at
        )
    if config.sampler.noise == "shared":
        raise fail(
            "expected prompts that are independent, got `sampler.noise: shared`: take `own`, or leave it out",
            at=at,
        )
    if (prompts := len(config.prompts[: config.limit])) < FEWEST:
        raise fail(f"expected at least {FEWEST} prompts, got {prompts}: give more, or leave it out", at=at)


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
