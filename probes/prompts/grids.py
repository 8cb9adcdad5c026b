"""Grids of prompts: a sentence with places for the levels of several axes, and every combination of them.

``prompts: {grid: "a {person} {attribute} {context}", attribute: {boots: in boots}, context: [riding a bike]}``. Each
prompt keeps where on the axes it stands (``levels``), by which measures over attributes and contexts
(`analysis.methods.gep.scores`) read a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from probes.fields.types import PERSON, as_text, fail, one_person, option, shown
from probes.prompts.grammar.articles import mended
from probes.prompts.prompt import Prompt

PLACE = re.compile(r"{([^{}]*)}")


class Grid(BaseModel):
    """A sentence with places in braces, ``{person}`` among them, and for each other place a key with its levels."""

    model_config = ConfigDict(extra="allow", title="Grid")

    grid: Annotated[
        str,
        Field(min_length=1),
        option(
            "A sentence with {person} and a place in braces for each axis; every other key is an axis with its"
            " levels, a list or phrases by name. Every combination is a prompt.",
            example="a {person} {attribute} {context}",
        ),
    ]


def read_grid(value: Mapping[str, Any], at: tuple[Any, ...]) -> list[Prompt]:
    """Return the prompts of a grid, which stands at a place of the configuration."""
    text = value["grid"]
    if not isinstance(text, str):
        raise fail(f"expected a text with one {PERSON}, got {shown(text)}: {as_text(text)}", at=(*at, "grid"))
    one_person(text, (*at, "grid"))
    places = [name for name in PLACE.findall(text) if f"{{{name}}}" != PERSON]
    axes = {name: _levels(value[name], (*at, name)) for name in value if name != "grid"}
    twice = next((name for name in places if places.count(name) > 1), None)
    if not places or twice is not None:
        found = "none" if twice is None else f"{{{twice}}} twice"
        raise fail(
            f"expected places such as {{context}}, each once, got {found}: write them", at=(*at, "grid")
        )
    for name in (*places, *axes):
        if name not in axes:
            raise fail(
                f"expected the levels of {{{name}}}, found none: add `{name}: [...]`", at=(*at, "grid")
            )
        if name not in places:
            raise fail(
                f"expected a place {{{name}}} in the grid, found none: add it or take `{name}` out",
                at=(*at, name),
            )
    return cells(text, axes)


def cells(
    text: str, axes: Mapping[str, Mapping[str, str]], fixed: Mapping[str, str] | None = None
) -> list[Prompt]:
    """Return the prompts of every combination of levels, the last axis of the text running fastest.

    An article right before a place becomes the one that the level takes: *an accountant*. `axes` has for each axis its
    levels and their phrases; the levels in `fixed` are shared by all prompts, before the others.
    """
    names = [name for name in PLACE.findall(text) if f"{{{name}}}" != PERSON]
    prompts = []
    for chosen in product(*(axes[name] for name in names)):
        sentence = text
        for name, level in zip(names, chosen):
            before, after = sentence.split(f"{{{name}}}")
            sentence = mended(before, axes[name][level]) + axes[name][level] + after
        levels = {**(fixed or {}), **dict(zip(names, chosen))}
        prompts.append(Prompt(template=sentence, id=slug(" ".join(levels.values())), levels=levels))
    return prompts


def named(levels: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return levels by name with their phrases; those of a list are their own."""
    return dict(levels) if isinstance(levels, Mapping) else {level: level for level in levels}


def slug(text: str) -> str:
    """Return an id made of a text, at most 100 characters.

    >>> slug("explicit boots riding a bike")
    'explicit-boots-riding-a-bike'
    """
    return re.sub(r"[^\w]+", "-", text.lower()).strip("-")[:100]


def _levels(value: Any, at: tuple[Any, ...]) -> dict[str, str]:
    """The levels of an axis, or what is wrong with them."""
    if not isinstance(value, list | Mapping) or not value:
        raise fail(
            f"expected a list of levels, or the phrase of each ({{boots: in boots}}), got {shown(value)}: write one",
            at=at,
        )
    for key, phrase in value.items() if isinstance(value, Mapping) else enumerate(value):
        level = key if isinstance(value, Mapping) else phrase
        if not all(isinstance(one, str) and one.strip() and not PLACE.search(one) for one in (level, phrase)):
            remedy = as_text(phrase)
            if isinstance(phrase, str):
                remedy = "take them out" if phrase.strip() else "write one"
            raise fail(f"expected a text without braces, got {shown(phrase)}: {remedy}", at=(*at, key))
    levels = named(value)
    if len(levels) < len(value):
        raise fail("expected each level once, got one twice: keep one", at=at)
    return levels
