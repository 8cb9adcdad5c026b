"""What is put into a configuration before it is validated (presets, synonyms), and checks between its fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from probes.config.generation import Indicator, Stop
from probes.fields.types import PERSON, fail, shown, text_remedy
from probes.fields.yaml import read_yaml
from probes.prompts.prompt import ABOUT, Prompt, normalize_text

PRESETS = ("wu2025",)  # settings of publications, files in the folder `presets`
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def apply_preset(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return configuration data merged over the preset that it names, or a copy if the preset is unknown or missing.

    A field of a section (``sampler: {steps: ...}``) takes the place of that field alone; anything else, such as the
    indicators or a list, of the whole.
    """
    name = data.get("preset")
    if name not in PRESETS:
        return dict(data)
    merged = dict(read_yaml(Path(__file__).parent / "presets" / f"{name}.yaml").data)
    for key, value in data.items():
        under = merged.get(key)
        joined = key != "indicators" and isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = {**under, **value} if joined else value
    return merged


def expand_synonyms(data: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """Return configuration data with each list of synonyms under ``indicators`` expanded to one indicator per word.

    The first word is the indicator's; the others follow all indicators that are written, as synonym controls of theirs,
    each under the name that its word makes.
    """
    words = data.get("indicators")
    if not isinstance(words, Mapping):
        return dict(data)
    reference = data.get("reference", reference)
    sides, synonyms = dict(words), {}
    for side, written in words.items():
        if written == []:
            raise fail("expected a word, and its synonyms, got none: write one", at=("indicators", side))
        for index, entry in enumerate(written if isinstance(written, list) else ()):
            at = ("indicators", side, index)
            fields = {"word": entry} if isinstance(entry, str) else entry
            if not isinstance(fields, Mapping) or not isinstance(word := fields.get("word"), str):
                raise fail(f"expected a word, got {shown(entry)}: {text_remedy(entry)}", at=at)
            if "control" in fields:
                raise fail(
                    "expected no `control` in a list, whose first word the others are synonyms of: take it out",
                    at=(*at, "control"),
                )
            if index == 0:
                sides[side] = dict(fields)
                continue
            name = re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")
            if not (word.isascii() and _NAME.fullmatch(name)):  # no letters that a name may have
                name = f"{side}_{index + 1}"
            if name in words or name in synonyms:
                raise fail(
                    f"expected a synonym with a name of its own, got {word!r}, and `{name}` is there: choose another,"
                    f" or write it as `{side}_{index + 1}: {{word: ..., control: {side}}}`",
                    at=at,
                )
            synonyms[name] = {**fields, "control": True if side == reference else side}
    return {**data, "indicators": {**sides, **synonyms}}


def check_indicators(indicators: Mapping[str, Indicator], reference: str) -> None:
    """Raise an error for no indicators, bad names, an unknown reference, unfit controls, or a word used twice."""
    if not indicators:
        raise fail(
            f"expected an indicator for {PERSON} in the prompts, got none: add one", at=("indicators",)
        )
    words: dict[str, str] = {}  # text encoders do not tell case or spaces apart
    for name in indicators:
        if not _NAME.fullmatch(name) or name in ABOUT:
            raise fail(
                f"expected a name of letters, digits and _ (not {', '.join(ABOUT)}), got `{name}`: rename it",
                at=("indicators",),
            )
    if reference not in indicators:
        raise fail(f"expected one of {[*indicators]}, got `{reference}`: choose one", at=("reference",))
    for name, indicator in indicators.items():
        at = ("indicators", name)
        if name == reference and indicator.control:
            raise fail("the reference cannot be its own control: take `control` out", at=at)
        if isinstance(indicator.control, str):
            side = indicators.get(indicator.control)
            if side is None or side.control or side is indicator:
                others = [other for other in indicators if other != name and not indicators[other].control]
                raise fail(
                    f"expected true (the reference) or one of {others}, got `{indicator.control}`:"
                    " name what the word can stand for",
                    at=(*at, "control"),
                )
        if (first := words.setdefault(normalize_text(indicator.word), name)) != name:
            raise fail(
                f"expected a word that differs, got {indicator.word!r}, which is that of `{first}`: choose another",
                at=at,
            )


def resolve_contrasts(
    contrasts: list[list[str]] | None, indicators: Mapping[str, Indicator], reference: str
) -> list[list[str]]:
    """Return pairs of indicators to compare: those given, if valid, else all without the reference and controls.

    Every pair is of indicators that are neither the reference nor a control, in the order of the indicators; of
    masculine and feminine the masculine comes first, so that a positive gap is one towards it.
    """
    others = [*indicators]
    others.remove(reference)
    if contrasts is None:
        pairs = combinations([name for name in others if not indicators[name].control], 2)
        return [["masculine", "feminine"] if pair == ("feminine", "masculine") else [*pair] for pair in pairs]
    first: dict[frozenset[str], int] = {}
    for index, pair in enumerate(contrasts):
        at = ("contrasts", index)
        if len(pair) != 2 or len({*pair}.intersection(others)) != 2:
            raise fail(f"expected two different ones of {others}, got {pair}: choose two", at=at)
        if (before := first.setdefault(frozenset(pair), index)) != index:
            raise fail(f"the same pair as contrasts[{before}]: keep one", at=at)
    return contrasts


def order_prompts(prompts: Sequence[Prompt], options: Stop) -> list[Prompt]:
    """Return prompts in the order of generation: as listed, or random by a seed, independent of the listed order.

    Each level has its proportion of any beginning, as far as whole prompts go.
    """
    if options.order == "listed":
        return [*prompts]
    groups: dict[str, list[tuple[int, Prompt]]] = {}
    for prompt in prompts:
        stratum = dict(prompt.levels) or None
        number = _hash_number(json.dumps(prompt.written(), sort_keys=True), options.seed)
        groups.setdefault(json.dumps(stratum, sort_keys=True), []).append((number, prompt))
    positions = []
    for stratum, members in groups.items():
        offset = _hash_number(stratum, options.seed) / 2**64
        for rank, (number, prompt) in enumerate(sorted(members, key=lambda member: member[0])):
            positions.append(((rank + offset) / len(members), number, prompt))
    return [prompt for *_, prompt in sorted(positions, key=lambda entry: entry[:2])]


def _hash_number(text: str, seed: int) -> int:
    """Return a pseudo-random integer below 2^64, a hash of a text and a seed."""
    return int.from_bytes(sha256(f"stop\n{seed}\n{text}".encode()).digest()[:8], "big")
