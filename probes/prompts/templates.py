"""Templates around prompts, and system prompts before them.

``prompts: {template: ["a photo of {}", "a painting of {}"], texts: [...]}`` puts every text into every template; under
``system`` each of these is drawn with every system prompt. A prompt keeps them as its levels ``template``, ``system``
and ``text``, beside those of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from probes.config.checks import SKILL, SYSTEM_PROMPT
from probes.fields.types import CHARACTERS, Text, as_text, fail, one, option, shown, takes
from probes.prompts.grids import Grid, slug
from probes.prompts.table import PromptTable

LEVEL, SYSTEM, TEXT, PLACE = "template", "system", "text", "{}"
KEYS = ("template", "system", "texts")
OWN = "own"  # the name of the model's own system prompt
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


def named(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the templates of a configuration by their names, each its own where none is given."""
    wrong = next((name for name in value if name not in KEYS), None)
    if wrong is not None:
        raise fail(f"unknown key, got {shown(value[wrong])}: known are {', '.join(KEYS)}", at=(wrong,))
    written = value.get("template")
    if written is None and value.get("system") is not None:
        return {}
    if not isinstance(written, (list, Mapping)) or not written:
        raise fail(
            f"expected a list of templates, or templates by name, got {shown(written)}: write"
            f' them as ["a photo of {PLACE}"]',
            at=("template",),
        )
    entries = written.items() if isinstance(written, Mapping) else enumerate(written)
    found: dict[str, str] = {}
    for key, text in entries:
        at = ("template", key)
        if not isinstance(text, str):
            raise fail(f"expected a text with one {PLACE}, got {shown(text)}: {as_text(text)}", at=at)
        _one_place(text, at)
        name = str(key) if isinstance(written, Mapping) else text
        if text in found.values() or name in found or not name.strip():
            raise fail(f"{text!r} stands twice: keep one", at=at)
        found[name] = text
    return found


def systems(value: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the system prompts of a configuration by their names, each its own where none is given."""
    written = value.get("system")
    if written is None:
        return {}
    if not isinstance(written, (list, Mapping)) or not written:
        raise fail(
            f"expected a list of system prompts, or system prompts by name, got {shown(written)}: write them as"
            ' [null, "Draw what is described."]',
            at=("system",),
        )
    entries = written.items() if isinstance(written, Mapping) else enumerate(written)
    found: dict[str, str | None] = {}
    for key, text in entries:
        at = ("system", key)
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise fail(
                f"expected a text, or null for the model's own, got {shown(text)}: {as_text(text)}", at=at
            )
        if text is not None and len(text) > CHARACTERS:
            raise fail(f"expected at most {CHARACTERS} characters, got {len(text)}: shorten it", at=at)
        name = str(key) if isinstance(written, Mapping) else text or OWN
        if text in found.values() or name in found or not name.strip():
            raise fail(f"{text!r} stands twice: keep one", at=at)
        found[name] = text
    return found


def cross_systems(
    systems: Mapping[str, str | None], prompts: Sequence[Any], reference: str
) -> list[dict[str, Any]]:
    """Return every prompt under every system prompt, all prompts of the first one first; see `cross`."""
    made: list[dict[str, Any]] = []
    ids: set[str] = set()
    for name, system in systems.items():
        for index, prompt in enumerate(prompts):
            there, levels, own = _parted(prompt, index, (SYSTEM, SKILL))
            if SYSTEM_PROMPT in there:
                raise fail(
                    "expected no system prompt of its own, got one: take it out",
                    at=("texts", index, SYSTEM_PROMPT),
                )
            text = levels.get(TEXT) or _called(there, reference)
            given = {} if system is None else {SYSTEM_PROMPT: system}
            levels = {SYSTEM: name, TEXT: text, **levels}
            made.append({"id": _id(ids, name, own or text), **there, **given, "levels": levels})
    return made


def _parted(
    prompt: Any, index: int, taken: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str], str | None]:
    """A prompt's texts, levels and id; refused where it has one of the levels that are taken."""
    there = {TEXT: prompt} if isinstance(prompt, str) else dict(prompt)
    levels, own = there.pop("levels", {}), there.pop("id", None)
    found = next((one for one in taken if one in levels), None)
    if found is not None:
        raise fail(
            f"expected no level `{found}`, which templates give, got one: take it out", at=("texts", index)
        )
    return there, levels, own


def _called(there: Mapping[str, str], reference: str) -> str:
    """The text that a prompt is called by."""
    return there.get(TEXT) or there.get(reference) or next(iter(there.values()), "")


def _id(ids: set[str], name: str, text: str) -> str:
    """An id that is none of `ids`, to which it is added."""
    identifier = slug(f"{name} {text}") or f"p{len(ids):03d}"
    if identifier in ids:
        identifier = f"{identifier[:90]}-{len(ids)}"
    ids.add(identifier)
    return identifier


def cross(templates: Mapping[str, str], prompts: Sequence[Any], reference: str) -> list[dict[str, Any]]:
    """Return every prompt (a text, or a mapping with texts) in every template, all prompts of the first template first.

    A prompt with several texts is called by that of the indicator `reference`.
    """
    made: list[dict[str, Any]] = []
    ids: set[str] = set()
    for name, template in templates.items():
        for index, prompt in enumerate(prompts):
            there, levels, own = _parted(prompt, index, (LEVEL, TEXT, SKILL))
            system = {key: there.pop(key) for key in (SYSTEM_PROMPT,) if key in there}
            text = _called(there, reference)
            filled = {key: template.replace(PLACE, value) for key, value in there.items()}
            long = max((len(value) for value in filled.values()), default=0)
            if long > CHARACTERS:
                raise fail(
                    f"expected at most {CHARACTERS} characters, got {long}: shorten it", at=("texts", index)
                )
            levels = {LEVEL: name, TEXT: text, **levels}
            made.append({"id": _id(ids, name, own or text), **filled, **system, "levels": levels})
    return made
