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

from pydantic import AfterValidator, ConfigDict, Field

from probes.fields.types import PERSON, Section, fail, one_person, option, shown, takes
from probes.prompts.grammar.articles import mended
from probes.prompts.prompt import Prompt, parsed

PLACE = re.compile(r"{([^{}]*)}")


def _without_braces(text: str) -> str:
    if not text.strip() or PLACE.search(text):
        raise fail(f"expected a text without braces, got {shown(text)}: write one")
    return text


_Phrase = Annotated[str, AfterValidator(_without_braces)]


class Grid(Section):
    """A sentence with places in braces, ``{person}`` among them, and for each other place a key with its levels."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[
        str,
        Annotated[
            Annotated[list[_Phrase], Field(min_length=1)]
            | Annotated[dict[_Phrase, _Phrase], Field(min_length=1)],
            takes("a list of levels, or the phrase of each ({boots: in boots})"),
        ],
    ]

    grid: Annotated[
        str,
        Field(min_length=1),
        AfterValidator(one_person),
        option(example="a {person} {attribute} {context}"),
    ]
    """A sentence with {person} and a place in braces for each axis; every other key is an axis with its levels,
    a list or phrases by name. Every combination is a prompt."""


def read_grid(value: Mapping[str, Any], at: tuple[Any, ...]) -> list[Prompt]:
    """Return the prompts of a grid, which stands at a place of the configuration."""
    grid = parsed(Grid, value, at)
    axes = {name: named(levels) for name, levels in (grid.model_extra or {}).items()}
    places = [name for name in PLACE.findall(grid.grid) if f"{{{name}}}" != PERSON]
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
        if len(axes[name]) < len(value[name]):
            raise fail("expected each level once, got one twice: keep one", at=(*at, name))
    return cells(grid.grid, axes)


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
