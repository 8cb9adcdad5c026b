"""Templates around prompts, and system prompts before them.

``prompts: {template: ["a photo of {}", "a painting of {}"], texts: [...]}`` puts every text into every template; under
``system`` each of these is drawn with every system prompt. A prompt keeps them as its levels ``template``, ``system``
and ``text``, beside those of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from probes.fields.types import CHARACTERS, Text, as_text, fail, one, option, shown, takes
from probes.prompts.grids import Grid, slug
from probes.prompts.prompt import SKILL, SYSTEM_PROMPT, Prompt
from probes.prompts.table import PromptTable

LEVEL, SYSTEM, TEXT, PLACE = "template", "system", "text", "{}"
KEYS = ("template", "system", "texts")
OWN = "own"  # the name of the model's own system prompt
_KINDS = {  # of texts by key, and how they are written
    "template": ("templates", f'["a photo of {PLACE}"]'),
    "system": ("system prompts", '[null, "Draw what is described."]'),
}
_one_place = one(PLACE, "text")
_Texts = Annotated[
    list[Annotated[Text | dict[str, Any], takes("a text, or a text with its levels")]]
    | PromptTable
    | Grid
    | dict[str, Any],
    takes("what `prompts` takes: a list, {table: prompts.csv}, {grid: ...} or {from: ...}"),
]


class Templates(BaseModel):
    """Templates, and the texts that are put into each of them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title="Templates")

    template: Annotated[
        Annotated[
            Annotated[list[Text], Field(min_length=1)] | Annotated[dict[str, Text], Field(min_length=1)],
            takes("a list of templates, or templates by name, each with one {}"),
        ]
        | None,
        option(
            "Sentences with {} where a text goes, as a list or by names of your own. Every text is put into each, and"
            " the report says what is due to the template: take at least two.",
            null="texts as they stand",
            example=["a photo of {}", "a painting of {}"],
        ),
    ] = None
    system: Annotated[
        Annotated[
            Annotated[list[Text | None], Field(min_length=1)]
            | Annotated[dict[str, Text | None], Field(min_length=1)],
            takes("a list of system prompts, or system prompts by name"),
        ]
        | None,
        option(
            "System prompts, as a list or by names of your own; null is the model's own. Every prompt is drawn with"
            " each, and the report says what is due to it. For Lumina-Image 2, Qwen-Image and Sana, which put one"
            " before every prompt.",
            null="the model's own alone",
            example={"own": None, "plain": "Draw what is described."},
        ),
    ] = None
    texts: Annotated[
        _Texts,
        option(
            "What goes into the templates: prompts in any form that `prompts` takes, with or without {person}.",
            example=["a nurse", "a pilot"],
        ),
    ]


def is_crossed(value: Any) -> bool:
    """Return whether prompts are written as templates or system prompts, and texts."""
    return isinstance(value, Mapping) and ("template" in value or "system" in value) and "grid" not in value


def crossed(value: Mapping[str, Any], prompts: Sequence[Prompt], reference: str) -> list[Prompt]:
    """Return prompts in every template and under every system prompt of a section `Templates`, the first ones first.

    A prompt with several texts is called by that of the indicator `reference`.
    """
    templates, systems = by_name(value, "template"), by_name(value, "system")
    if templates:
        prompts = _filled(templates, prompts, reference)
    return _under_systems(systems, prompts, reference) if systems else [*prompts]


def by_name(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the templates or the system prompts of a section by their names, each its own where none is given."""
    wrong = next((name for name in value if name not in KEYS), None)
    if wrong is not None:
        raise fail(f"unknown key, got {shown(value[wrong])}: known are {', '.join(KEYS)}", at=(wrong,))
    written, others = value.get(key), [name for name in KEYS[:2] if name != key]
    if written is None and (key == "system" or value.get(others[0]) is not None):
        return {}
    if not isinstance(written, list | Mapping) or not written:
        kind, example = _KINDS[key]
        raise fail(
            f"expected a list of {kind}, or {kind} by name, got {shown(written)}: write them as {example}",
            at=(key,),
        )
    named: dict[str, Any] = {}
    for place, text in written.items() if isinstance(written, Mapping) else enumerate(written):
        at = (key, place)
        _check(text, key, at)
        name = str(place) if isinstance(written, Mapping) else text or OWN
        if text in named.values() or name in named or not name.strip():
            raise fail(f"{text!r} stands twice: keep one", at=at)
        named[name] = text
    return named


def _check(text: Any, key: str, at: tuple[Any, ...]) -> None:
    if key == "template":
        if not isinstance(text, str):
            raise fail(f"expected a text with one {PLACE}, got {shown(text)}: {as_text(text)}", at=at)
        _one_place(text, at)
    elif text is not None:
        if not isinstance(text, str) or not text.strip():
            raise fail(
                f"expected a text, or null for the model's own, got {shown(text)}: {as_text(text)}", at=at
            )
        if len(text) > CHARACTERS:
            raise fail(f"expected at most {CHARACTERS} characters, got {len(text)}: shorten it", at=at)


def _filled(templates: Mapping[str, str], prompts: Sequence[Prompt], reference: str) -> list[Prompt]:
    filled, ids = [], set[str]()
    for name, template in templates.items():
        for index, prompt in enumerate(prompts):
            _require_free(prompt, (LEVEL, TEXT, SKILL), index)
            called = prompt.template or prompt.texts.get(reference) or next(iter(prompt.texts.values()), "")
            texts = {key: template.replace(PLACE, text) for key, text in prompt.texts.items()}
            own = prompt.template and template.replace(PLACE, prompt.template)
            long = max(map(len, (own, *texts.values())))
            if long > CHARACTERS:
                raise fail(
                    f"expected at most {CHARACTERS} characters, got {long}: shorten it", at=("texts", index)
                )
            levels = {LEVEL: name, TEXT: called, **prompt.levels}
            identifier = _id(ids, name, prompt.id or called)
            filled.append(Prompt(texts, own, identifier, levels, prompt.system_prompt))
    return filled


def _under_systems(
    systems: Mapping[str, str | None], prompts: Sequence[Prompt], reference: str
) -> list[Prompt]:
    varied, ids = [], set[str]()
    for name, system in systems.items():
        for index, prompt in enumerate(prompts):
            _require_free(prompt, (SYSTEM, SKILL), index)
            if prompt.system_prompt is not None:
                raise fail(
                    "expected no system prompt of its own, got one: take it out",
                    at=("texts", index, SYSTEM_PROMPT),
                )
            text = prompt.template or prompt.texts.get(reference) or next(iter(prompt.texts.values()), "")
            text = prompt.levels.get(TEXT) or text
            levels = {SYSTEM: name, TEXT: text, **prompt.levels}
            identifier = _id(ids, name, prompt.id or text)
            varied.append(replace(prompt, id=identifier, levels=levels, system_prompt=system))
    return varied


def _require_free(prompt: Prompt, taken: Sequence[str], index: int) -> None:
    """Refuse a prompt that has one of the levels that are taken."""
    level = next((name for name in taken if name in prompt.levels), None)
    if level is not None:
        raise fail(
            f"expected no level `{level}`, which templates give, got one: take it out", at=("texts", index)
        )


def _id(ids: set[str], name: str, text: str) -> str:
    """An id that is none of `ids`, to which it is added."""
    identifier = slug(f"{name} {text}") or f"p{len(ids):03d}"
    if identifier in ids:
        identifier = f"{identifier[:90]}-{len(ids)}"
    ids.add(identifier)
    return identifier
