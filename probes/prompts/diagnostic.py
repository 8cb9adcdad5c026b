"""Diagnostic prompts of DALL-Eval (Cho et al. 2023, section 4.2.1): a person, and a person who works as something.

A prompt of such an audit carries the levels ``profession`` (as it was named, or `NONE`) and ``setting``; a
configuration whose prompts have professions is an audit of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probes.fields.types import fail, shown
from probes.prompts.grids import cells, slug
from probes.prompts.prompt import HasPrompts, Prompt

AXIS = "profession"
WORDING = ("template", "text")  # levels that say how a prompt is worded, and not what it is of
NONE = "(none)"  # the level of a prompt that names no profession
ALL = "(all)"  # in tables: all professions, or all words together
_ARTICLES = ("a", "an", "the")


@dataclass(frozen=True)
class ProfessionCell:
    """Place of a prompt in an audit: its number in the run, and its profession or `NONE`."""

    triplet: int
    profession: str


def is_diagnostic(config: HasPrompts) -> bool:
    """Return whether a run is an audit of professions: some prompt of it has the level ``profession``."""
    return bool(places(config))


def places(config: HasPrompts) -> list[ProfessionCell]:
    """Return where the prompts of an audit stand; prompts without a ``profession`` among their levels are left out.

    Prompts of one profession are of one place whatever their template; where they differ in another level, a setting or
    a model, the place is called by it, too: *nurse, diversity*.
    """
    cells = {
        triplet: prompt.levels
        for triplet, prompt in enumerate(config.prompts[: config.limit])
        if AXIS in prompt.levels
    }
    seen: dict[tuple[str, str], set[str]] = {}
    for levels in cells.values():
        for name in levels.keys() - {AXIS, *WORDING}:
            seen.setdefault((levels[AXIS], name), set()).add(levels[name])
    differing = sorted({name for (_, name), values in seen.items() if len(values) > 1})
    return [
        ProfessionCell(
            triplet, ", ".join([levels[AXIS], *(levels[name] for name in differing if name in levels)])
        )
        for triplet, levels in cells.items()
    ]


def professions(config: HasPrompts) -> tuple[str, ...]:
    """Return the professions of an audit, each once, in the order of its prompts; `NONE` among them where it stands."""
    return tuple(dict.fromkeys(place.profession for place in places(config)))


def prompts(content: Mapping[str, Any], chosen: Sequence[str] | None = None) -> list[Prompt]:
    """Return the prompt without a profession and one for each profession.

    `content` is the file of a set: ``bare``, ``axes: {profession: [...]}`` and one of ``grids``. `chosen` takes the
    place of its professions.
    """
    ((setting, text),) = content["grids"].items()
    names = content["axes"][AXIS] if chosen is None else chosen
    levels = {"setting": setting, AXIS: NONE}
    bare = Prompt(template=content["bare"], id=slug(f"{setting} {NONE}"), levels=levels)
    return [bare, *cells(text, {AXIS: {name: name for name in names}}, {"setting": setting})]


def check_professions(names: list[str]) -> list[str]:
    """Refuse names that no prompt could say as they are, and those that two prompts would have."""
    before: dict[str, int] = {}
    for index, name in enumerate(names):
        first, *rest = name.split() or [""]
        if not any(char.isalnum() for char in name) or any(char in name for char in "{}"):
            raise fail(
                f"expected the name of a profession without braces, got {shown(name)}: write it as `baker`",
                at=(index,),
            )
        if first.lower() in _ARTICLES and rest:
            raise fail(
                f"expected a profession without its article, got {shown(name)}: write {' '.join(rest)}",
                at=(index,),
            )
        if name in (NONE, ALL) or name != " ".join(name.split()):
            raise fail(
                f"expected single spaces and a name other than {NONE} and {ALL}, got {shown(name)}: write it so",
                at=(index,),
            )
        if (key := slug(name)) in before:
            raise fail(
                f"the same as profession[{before[key]}], got {shown(name)}: keep one",
                at=(index,),
            )
        before[key] = index
    return names
