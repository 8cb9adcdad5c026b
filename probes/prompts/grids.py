"""Designs of prompts: grids of levels, and templates and system prompts around texts.

``prompts: {grid: "a {person} {attribute} {context}", attribute: {boots: in boots}, context: [riding a bike]}`` is every
combination of the levels. Each prompt keeps where on the axes it stands (``levels``), by which measures over attributes
and contexts (`analysis.methods.gep.scores`) read a run. ``prompts: {template: ["a photo of {}", "a painting of {}"],
texts: [...]}`` puts every text into every template; under ``system`` each of these is drawn with every system prompt.
A prompt keeps them as its levels ``template``, ``system`` and ``text``, beside those of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from probes.fields.types import PERSON, KeyPath, fail
from probes.prompts.forms import PLACE, Grid, Templates, parse_form
from probes.prompts.grammar.english import fit_article
from probes.prompts.prompt import SKILL, SYSTEM_PROMPT, Prompt

OWN = "own"  # the name of the model's own system prompt


def read_grid(section: Mapping[str, Any], at: KeyPath) -> list[Prompt]:
    """Return the prompts of ``{grid: SENTENCE, AXIS: LEVELS...}``; an error if placeholders and axes do not match."""
    grid = parse_form(Grid, section, at)
    axes = {name: phrases_by_level(levels) for name, levels in (grid.model_extra or {}).items()}
    places = [name for name in PLACE.findall(grid.grid) if f"{{{name}}}" != PERSON]
    twice = next((name for name in places if places.count(name) > 1), None)
    if not places or twice is not None:
        got = "none" if twice is None else f"{{{twice}}} twice"
        raise fail(f"expected places such as {{context}}, each once, got {got}: write them", at=(*at, "grid"))
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
        if len(axes[name]) < len(section[name]):
            raise fail("expected each level once, got one twice: keep one", at=(*at, name))
    return grid_prompts(grid.grid, axes)


def grid_prompts(
    text: str, axes: Mapping[str, Mapping[str, str]], shared_levels: Mapping[str, str] | None = None
) -> list[Prompt]:
    """Return a prompt for each combination of the axes' levels, filled into a text's ``{axis}`` placeholders.

    The last placeholder varies fastest. An article right before one becomes the one that the level takes: *an
    accountant*. `axes` has for each axis its levels and their phrases; all prompts have the `shared_levels`.
    """
    names = [name for name in PLACE.findall(text) if f"{{{name}}}" != PERSON]
    prompts = []
    for chosen in product(*(axes[name] for name in names)):
        sentence = text
        for name, level in zip(names, chosen):
            before, after = sentence.split(f"{{{name}}}")
            sentence = fit_article(before, axes[name][level]) + axes[name][level] + after
        levels = {**(shared_levels or {}), **dict(zip(names, chosen))}
        prompts.append(Prompt(template=sentence, id=slug(" ".join(levels.values())), levels=levels))
    return prompts


def phrases_by_level(levels: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return the phrase of each level of a grid's axis; levels in a list are their own phrases."""
    return dict(levels) if isinstance(levels, Mapping) else {level: level for level in levels}


def slug(text: str) -> str:
    """Return an id from a text: lower case, hyphens between words, at most 100 characters.

    >>> slug("explicit boots riding a bike")
    'explicit-boots-riding-a-bike'
    """
    return re.sub(r"[^\w]+", "-", text.lower()).strip("-")[:100]


def apply_templates(section: Templates, prompts: Sequence[Prompt], reference: str) -> list[Prompt]:
    """Return every prompt in every template with every system prompt of `section`, by system prompt, then template.

    The level ``text`` of a prompt with several texts is that of the indicator `reference`.
    """
    for level, variants, reserved in (
        ("template", section.template, ("template", "text", SKILL)),
        ("system", section.system, ("system", SKILL)),
    ):
        varied, ids = [], set[str]()
        for name, variant in _variants_by_name(level, variants or {}).items():
            for index, prompt in enumerate(prompts):
                at = ("texts", index)
                if conflict := next((other for other in reserved if other in prompt.levels), None):
                    raise fail(
                        f"expected no level `{conflict}`, which templates give, got one: take it out", at=at
                    )
                if level == "template":
                    texts = {key: variant.replace("{}", text) for key, text in prompt.texts.items()}
                    template = prompt.template and variant.replace("{}", prompt.template)
                    changed = replace(prompt, texts=texts, template=template)
                elif prompt.system_prompt is None:
                    changed = replace(prompt, system_prompt=variant)
                else:
                    raise fail(
                        "expected no system prompt of its own, got one: take it out", at=(*at, SYSTEM_PROMPT)
                    )
                text = prompt.levels.get("text") or prompt.main_text(reference)
                identifier = slug(f"{name} {prompt.id or text}") or f"p{len(ids):03d}"
                if identifier in ids:
                    identifier = f"{identifier[:90]}-{len(ids)}"
                ids.add(identifier)
                levels = {level: name, "text": text, **prompt.levels}
                varied.append(replace(changed, id=identifier, levels=levels))
        prompts = varied if variants else prompts
    return [*prompts]


def _variants_by_name(key: str, written: Sequence[str | None] | Mapping[str, str | None]) -> dict[str, Any]:
    """Return templates or system prompts by name (those of a list: their text); an error under `key` for equal ones."""
    result: dict[str, Any] = {}
    for place, text in written.items() if isinstance(written, Mapping) else enumerate(written):
        name = str(place) if isinstance(written, Mapping) else text or OWN
        if name in result or text in result.values():
            raise fail(f"{text!r} stands twice: keep one", at=(key, place))
        result[name] = text
    return result
