"""Templates around prompts, and system prompts before them.

``prompts: {template: ["a photo of {}", "a painting of {}"], texts: [...]}`` puts every text into every template; under
``system`` each of these is drawn with every system prompt. A prompt keeps them as its levels ``template``, ``system``
and ``text``, beside those of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from probes.fields.types import CHARACTERS, Section, Text, fail, one, option, takes
from probes.prompts.grids import Grid, slug
from probes.prompts.prompt import SKILL, SYSTEM_PROMPT, Prompt
from probes.prompts.table import PromptTable

LEVEL, SYSTEM, TEXT, PLACE = "template", "system", "text", "{}"
OWN = "own"  # the name of the model's own system prompt
_Template = Annotated[Text, AfterValidator(one(PLACE, "text"))]
_Texts = Annotated[
    list[Annotated[Text | dict[str, Any], takes("a text, or a text with its levels")]]
    | PromptTable
    | Grid
    | dict[str, Any],
    takes("what `prompts` takes: a list, {table: prompts.csv}, {grid: ...} or {from: ...}"),
]


class Templates(Section):
    """Templates, and the texts that are put into each of them."""

    template: Annotated[
        Annotated[
            Annotated[list[_Template], Field(min_length=1)]
            | Annotated[dict[str, _Template], Field(min_length=1)],
            takes("a list of templates, or templates by name, each with one {}"),
        ]
        | None,
        option(null="texts as they stand", example=["a photo of {}", "a painting of {}"]),
    ] = None
    """Sentences with {} where a text goes, as a list or by names of your own. Every text is put into each, and
    the report says what is due to the template: take at least two."""
    system: Annotated[
        Annotated[
            Annotated[list[Text | None], Field(min_length=1)]
            | Annotated[dict[str, Text | None], Field(min_length=1)],
            takes("a list of system prompts, or system prompts by name"),
        ]
        | None,
        option(null="the model's own alone", example={"own": None, "plain": "Draw what is described."}),
    ] = None
    """System prompts, as a list or by names of your own; null is the model's own. Every prompt is drawn with
    each, and the report says what is due to it. For Lumina-Image 2, Qwen-Image and Sana, which put one before
    every prompt."""
    texts: Annotated[_Texts, option(example=["a nurse", "a pilot"])]
    """What goes into the templates: prompts in any form that `prompts` takes, with or without {person}."""


def is_crossed(value: Any) -> bool:
    """Return whether prompts are written as templates or system prompts, and texts."""
    return isinstance(value, Mapping) and ("template" in value or "system" in value) and "grid" not in value


def crossed(section: Templates, prompts: Sequence[Prompt], reference: str) -> list[Prompt]:
    """Return prompts in every template and under every system prompt, all prompts of the first one first.

    A prompt with several texts is called by that of the indicator `reference`.
    """
    if section.template is not None:
        taken = (LEVEL, TEXT, SKILL)
        prompts = _varied(LEVEL, _by_name("template", section.template), prompts, reference, taken, _filled)
    if section.system is not None:
        systems = _by_name("system", section.system)
        prompts = _varied(SYSTEM, systems, prompts, reference, (SYSTEM, SKILL), _with_system)
    return [*prompts]


def _varied(
    level: str,
    variants: Mapping[str, Any],
    prompts: Sequence[Prompt],
    reference: str,
    taken: Sequence[str],
    change: Callable[[Prompt, Any, tuple[Any, ...]], Prompt],
) -> list[Prompt]:
    """Every prompt in every variant, by whose name it has the level; none may have a level that is taken."""
    varied, ids = [], set[str]()
    for name, variant in variants.items():
        for index, prompt in enumerate(prompts):
            at = ("texts", index)
            if held := next((other for other in taken if other in prompt.levels), None):
                raise fail(f"expected no level `{held}`, which templates give, got one: take it out", at=at)
            text = prompt.levels.get(TEXT) or prompt.main_text(reference)
            levels = {level: name, TEXT: text, **prompt.levels}
            identifier = _id(ids, name, prompt.id or text)
            varied.append(replace(change(prompt, variant, at), id=identifier, levels=levels))
    return varied


def _filled(prompt: Prompt, template: str, at: tuple[Any, ...]) -> Prompt:
    texts = {name: template.replace(PLACE, text) for name, text in prompt.texts.items()}
    whole = prompt.template and template.replace(PLACE, prompt.template)
    long = max(map(len, (whole, *texts.values())))
    if long > CHARACTERS:
        raise fail(f"expected at most {CHARACTERS} characters, got {long}: shorten it", at=at)
    return replace(prompt, texts=texts, template=whole)


def _with_system(prompt: Prompt, system: str | None, at: tuple[Any, ...]) -> Prompt:
    if prompt.system_prompt is not None:
        raise fail("expected no system prompt of its own, got one: take it out", at=(*at, SYSTEM_PROMPT))
    return replace(prompt, system_prompt=system)


def _by_name(key: str, written: Sequence[str | None] | Mapping[str, str | None]) -> dict[str, Any]:
    """Templates or system prompts by their names, each its own where none is given."""
    named: dict[str, Any] = {}
    for place, text in written.items() if isinstance(written, Mapping) else enumerate(written):
        name = str(place) if isinstance(written, Mapping) else text or OWN
        if name in named or text in named.values():
            raise fail(f"{text!r} stands twice: keep one", at=(key, place))
        named[name] = text
    return named


def _id(ids: set[str], name: str, text: str) -> str:
    """An id that is none of `ids`, to which it is added."""
    identifier = slug(f"{name} {text}") or f"p{len(ids):03d}"
    if identifier in ids:
        identifier = f"{identifier[:90]}-{len(ids)}"
    ids.add(identifier)
    return identifier
