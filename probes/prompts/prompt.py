"""A prompt: a text for each indicator, or one template with ``{person}`` for all of them, and its place in a design."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooks.prompt.spans import Span
from probes.fields.types import (
    CHARACTERS,
    HINT,
    PERSON,
    KeyPath,
    fail,
    require_person_placeholder,
    shown,
    text_remedy,
)
from probes.prompts.grammar.english import fit_article

TEXT, LEVELS, ID, SYSTEM_PROMPT = "text", "levels", "id", "system_prompt"
ABOUT = (ID, LEVELS, SYSTEM_PROMPT)  # keys of a written prompt that are no text of it
SKILL = "skill"  # the level of a prompt that asks for one
PICTURE = "picture"  # the level that names the picture which images start from
ID_LENGTH = 100  # characters
IndicatorForms = Mapping[str, tuple[str, str]]  # by indicator, its word for a person and the plural


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: a text for each indicator, or one template with ``{person}``; `levels` by axis of the design."""

    texts: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    id: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)
    system_prompt: str | None = None  # None: the model's own

    def __repr__(self) -> str:
        """The prompt as text, as it is written in configurations."""
        return repr(self.written())

    def name(self, index: int) -> str:
        """Return the prompt's id or, if it has none, its index in the run as ``p003``."""
        return self.id or f"p{index:03d}"

    def text(self, indicator: str, word: str) -> str:
        """Return the text for an indicator: the template with `word` in it or, without one, the indicator's text."""
        return fill_person(self.template, word)[0] if self.template else self.texts[indicator]

    def main_text(self, reference: str) -> str:
        """Return the template, else the reference indicator's text, else the first text; empty if there is none."""
        return self.template or self.texts.get(reference) or next(iter(self.texts.values()), "")

    def written(self) -> str | dict[str, Any]:
        """Return the prompt as configurations write it: a mapping, or a text if it is a template and nothing else."""
        if self.template and not self.id and not self.levels and self.system_prompt is None:
            return self.template
        texts = {TEXT: self.template} if self.template else self.texts
        return {
            **({ID: self.id} if self.id else {}),
            **texts,
            **({SYSTEM_PROMPT: self.system_prompt} if self.system_prompt is not None else {}),
            **({LEVELS: dict(self.levels)} if self.levels else {}),
        }


def from_written(written: Any, at: KeyPath | None = None) -> Prompt:
    """Return the `Prompt` that a configuration writes as text or mapping; checked if its key path `at` is given."""
    if isinstance(written, Prompt):
        written = written.written()
    if at is not None or not isinstance(written, str | Mapping):
        _check_written(written, at or ())
    if isinstance(written, str):
        return Prompt(template=written)
    texts = {name: text for name, text in written.items() if name not in ABOUT}
    template = texts.pop(TEXT) if PERSON in str(texts.get(TEXT)) else ""
    about = written.get(ID) or "", written.get(LEVELS) or {}, written.get(SYSTEM_PROMPT)
    return Prompt(texts, template, *about)


def _check_written(written: Any, at: KeyPath) -> None:
    """Raise an error, with the key path `at`, for anything but a valid text or mapping of a prompt."""
    if isinstance(written, str):
        _check_length(written, at)
        _check_template(written, at)
        return
    if not isinstance(written, Mapping):
        raise fail(
            f"expected a text with one {PERSON}, got {shown(written)}{HINT}: {text_remedy(written)}", at=at
        )
    levels = written.get(LEVELS, {"": ""})
    if not isinstance(levels, Mapping) or not levels:
        raise fail(
            f"expected the level of each axis, as {{context: riding a bike}}, got {shown(levels)}{HINT}: write one",
            at=(*at, LEVELS),
        )
    for name, text in written.items():
        if not isinstance(name, str):
            raise fail(f"expected a text as key, got {shown(name)}: quote it", at=at)
        for axis, value in text.items() if name == LEVELS else [(None, text)]:
            location = (*at, name) if axis is None else (*at, name, axis)
            if not isinstance(value, str):
                raise fail(f"expected a text, got {shown(value)}{HINT}: {text_remedy(value)}", at=location)
            if not value.strip():
                raise fail(f"expected a text, got {shown(value)}{HINT}: write another", at=location)
            _check_length(value, location)
    if len(written.get(ID, "")) > ID_LENGTH:
        raise fail(
            f"expected at most {ID_LENGTH} characters, got {len(written[ID])}: shorten it", at=(*at, ID)
        )
    if PERSON in written.get(TEXT, ""):
        _check_template(written[TEXT], (*at, TEXT))
        if extra := sorted({*written} - {TEXT, *ABOUT}):
            raise fail(
                f"expected a text with {PERSON}, an id and levels, got `{extra[0]}` beside them: take it out",
                at=at,
            )


def _check_length(text: str, at: KeyPath) -> None:
    """Raise an error for a text of more than 2,000 characters."""
    if len(text) > CHARACTERS:
        raise fail(f"expected at most {CHARACTERS} characters, got {len(text)}{HINT}: shorten it", at=at)


def _check_template(text: str, at: KeyPath) -> None:
    """Raise an error unless a text has ``{person}`` once and no other braces."""
    require_person_placeholder(text, at)
    if re.search(r"[{}]", text.replace(PERSON, "")):
        raise fail(f"expected no braces but {PERSON}, got {shown(text)}: take them out", at=at)


def check_prompts(prompts: Sequence[Prompt], indicators: Sequence[str], *, by_levels: bool = False) -> None:
    """Raise an error if an indicator's text is missing, unknown or repeated, or prompts are equal or share an id.

    ``by_levels``: prompts may differ in their levels alone, as where images exist already or start from pictures.
    """
    ids: dict[str, int] = {}
    first: dict[str, int] = {}
    for index, prompt in enumerate(prompts):
        at = ("prompts", index)
        if not prompt.template:
            _check_texts(prompt.texts, indicators, at)
        # what it asks for, equal for all that text encoders do not tell apart
        texts = sorted((name, normalize_text(text)) for name, text in prompt.texts.items())
        levels = dict(prompt.levels) if by_levels or SKILL in prompt.levels else {}
        key = repr((normalize_text(prompt.template), texts, levels, prompt.system_prompt or ""))
        if key in first:
            raise fail(f"the same as prompts[{first[key]}]: keep one", at=at)
        identifier = prompt.name(index)
        if identifier in ids:
            raise fail(f"id `{identifier}` is that of prompts[{ids[identifier]}]: rename it", at=at)
        first[key], ids[identifier] = index, index


def _check_texts(texts: Mapping[str, str], indicators: Sequence[str], at: KeyPath) -> None:
    """Raise an error unless a prompt has one text for each indicator, no two of them equal."""
    if TEXT in texts and TEXT not in indicators:
        require_person_placeholder(texts[TEXT], (*at, TEXT))
    missing, extra = [name for name in indicators if name not in texts], sorted(set(texts) - {*indicators})
    if missing or extra:
        wrong = f"without `{missing[0]}`" if missing else f"with `{extra[0]}`"
        raise fail(f"expected a text for each of {[*indicators]}, got one {wrong}: give just these", at=at)
    first: dict[str, str] = {}
    for name in indicators:
        text = normalize_text(texts[name])
        if text in first:
            raise fail(
                f"expected a text that differs, got {texts[name]!r} for `{first[text]}` and `{name}`: change one",
                at=at,
            )
        first[text] = name


def asks_for_skills(config: Any) -> bool:
    """Return whether a run has prompts that all ask for a visual skill (level ``skill``), as those of PaintSkills."""
    return bool(config.prompts) and all(SKILL in prompt.levels for prompt in config.prompts)


def normalize_text(text: str) -> str:
    """Return `text` in the form in which texts are compared: case folded, single spaces, none at the edges."""
    return " ".join(text.casefold().split())


def fill_person(template: str, word: str) -> tuple[str, Span]:
    """Return a template with `word` for ``{person}``, an article before it adapted, and the word's character span.

    >>> fill_person("A {person} with a dog", "adult")
    ('An adult with a dog', (3, 8))
    """
    before, after = template.split(PERSON)
    before = fit_article(before, word)
    return before + word + after, (len(before), len(before) + len(word))
