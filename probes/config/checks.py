"""Checks between fields of ``triplets.yaml``: names, words, contrasts, prompts, the size of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Protocol

from probes.fields.types import IMAGES, PERSON, fail, has_template, one_person

FEWEST = 6  # prompts, of fewer than which no direction is told
INDICATORS = 40  # every pair of them is compared at every site and step
SKILL = "skill"  # the level of a prompt that asks for one
SYSTEM_PROMPT = "system_prompt"  # what stands in the place of the model's own
ABOUT = ("id", "levels", SYSTEM_PROMPT)  # keys of a prompt that are no text of it


class HasPrompts(Protocol):
    """A configuration, as far as its prompts go, of which the first ``limit`` are used."""

    @property
    def prompts(self) -> Sequence[Any]:
        """Texts with ``{person}``, or mappings with an id, levels and texts."""

    @property
    def limit(self) -> int | None:
        """Number of prompts that are used; None: all."""


def check_indicators(indicators: Mapping[str, Any], reference: str, prompts: Sequence[Any]) -> None:
    """Refuse names and controls that do not fit, and words that do not differ."""
    names = list(indicators)
    at = ("indicators",)
    if not names:
        raise fail(f"expected an indicator for {PERSON} in the prompts, got none: add one", at=at)
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name) or name in ABOUT:
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


def normal(text: str) -> str:
    """Return `text` as it is compared: case folded, single spaces, none at the edges."""
    return " ".join(text.casefold().split())


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


def check_prompts(prompts: Sequence[Any], names: list[str], *, of_images: bool = False) -> None:
    """Refuse captions that are missing, unknown or the same for two indicators, and prompts that stand twice.

    ``of_images``: the prompts are those of images that are there; some may differ in their levels alone.
    """
    ids: dict[str, int] = {}
    first: dict[str, int] = {}
    for index, prompt in enumerate(prompts):
        at = ("prompts", index)
        if isinstance(prompt, dict) and has_template(prompt):
            _check_template(prompt, at)
        elif isinstance(prompt, dict):
            _check_captions(prompt, names, at)
        identifier, key = prompt_id(prompt, index), _content(prompt)
        key += repr(levels(prompt)) if of_images else ""
        if key in first:
            raise fail(f"the same as prompts[{first[key]}]: keep one", at=at)
        if identifier in ids:
            raise fail(f"id `{identifier}` is that of prompts[{ids[identifier]}]: rename it", at=at)
        first[key], ids[identifier] = index, index


def _content(prompt: str | Mapping[str, Any]) -> str:
    """Return what a prompt asks for, equal for all that text encoders do not tell apart."""
    if isinstance(prompt, str):
        return _content({"text": prompt})
    texts = sorted((name, normal(text)) for name, text in prompt.items() if name not in ABOUT)
    own = repr(levels(prompt)) if SKILL in levels(prompt) else ""
    return repr(texts) + own + repr(system_prompt(prompt) or "")


def _check_template(prompt: Mapping[str, Any], at: tuple[Any, ...]) -> None:
    extra = sorted(set(prompt) - {"text", *ABOUT})
    if extra:
        raise fail(
            f"expected a text with {PERSON}, an id and levels, got `{extra[0]}` beside them: take it out",
            at=at,
        )


def _check_captions(prompt: Mapping[str, Any], names: list[str], at: tuple[Any, ...]) -> None:
    if "text" in prompt and "text" not in names:
        one_person(prompt["text"], (*at, "text"))
    missing, extra = [n for n in names if n not in prompt], sorted(set(prompt) - {*names, *ABOUT})
    if missing or extra:
        wrong = f"without `{missing[0]}`" if missing else f"with `{extra[0]}`"
        raise fail(f"expected a text for each of {names}, got one {wrong}: give just these", at=at)
    first: dict[str, str] = {}
    for name in names:
        text = normal(prompt[name])
        if text in first:
            raise fail(
                f"expected a text that differs, got {prompt[name]!r} for `{first[text]}` and `{name}`:"
                " change one",
                at=at,
            )
        first[text] = name


def prompt_id(prompt: str | Mapping[str, Any], index: int) -> str:
    """Return the id of a prompt: its own, or its number: ``p003``."""
    return f"p{index:03d}" if isinstance(prompt, str) else prompt.get("id", f"p{index:03d}")


def template(prompt: str | Mapping[str, Any]) -> str:
    """Return the text of a prompt with ``{person}`` in it; empty where each indicator has a text of its own."""
    if isinstance(prompt, str):
        return prompt
    return prompt["text"] if has_template(prompt) else ""


def caption(prompt: str | Mapping[str, Any], indicator: str) -> str:
    """Return the text that a prompt without `template` has for an indicator."""
    return "" if isinstance(prompt, str) else prompt[indicator]


def levels(prompt: str | Mapping[str, Any]) -> Mapping[str, str]:
    """Return where in a grid a prompt stands, a level an axis; nothing where it is of none."""
    return {} if isinstance(prompt, str) else prompt.get("levels", {})


def system_prompt(prompt: str | Mapping[str, Any]) -> str | None:
    """Return the system prompt that a prompt is drawn with; None: the model's own."""
    return None if isinstance(prompt, str) else prompt.get(SYSTEM_PROMPT)


def asks_for_skills(config: HasPrompts) -> bool:
    """Return whether every prompt of a run asks for a skill (`probes.prompts.paintskills`) and names nobody.

    Such a run may have one indicator, and compares no words.
    """
    return bool(config.prompts) and all(SKILL in levels(prompt) for prompt in config.prompts)


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
