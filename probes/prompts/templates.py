"""Templates around prompts: ``prompts: {template: ["a photo of {}", "a painting of {}"], texts: [...]}``.

Every text is put into every template. A prompt keeps both as its levels ``template`` and ``text``, beside those of
the text: so it can be said what is due to the wording (`analysis.methods.templates`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from probes.config.checks import SKILL
from probes.config.types import CHARACTERS, Text, as_text, fail, one, option, shown, takes
from probes.prompts.grids import Grid, slug
from probes.prompts.table import PromptTable

LEVEL, TEXT, PLACE = "template", "text", "{}"
KEYS = ("template", "texts")
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
        ],
        option(
            "Sentences with {} where a text goes, as a list or by names of your own. Every text is put into each, and"
            " the report says what is due to the template: take at least two.",
            example=["a photo of {}", "a painting of {}"],
        ),
    ]
    texts: Annotated[
        _Texts,
        option(
            "What goes into the templates: prompts in any form that `prompts` takes, with or without {person}.",
            example=["a nurse", "a pilot"],
        ),
    ]


def is_crossed(value: Any) -> bool:
    """Return whether prompts are written as templates and texts."""
    return isinstance(value, Mapping) and "template" in value and "grid" not in value


def named(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the templates of a configuration by their names, each its own where none is given.

    Raises
    ------
    PydanticCustomError
        There is none, one stands twice, or one has not one ``{}``.

    Examples
    --------
    >>> (
    ...     named({"template": ["a photo of {}"], "texts": []}),
    ...     named({"template": {"oil": "an oil painting of {}"}}),
    ... )
    ({'a photo of {}': 'a photo of {}'}, {'oil': 'an oil painting of {}'})
    """
    wrong = next((name for name in value if name not in KEYS), None)
    if wrong is not None:
        raise fail(f"unknown key, got {shown(value[wrong])}: known are {', '.join(KEYS)}", at=(wrong,))
    written = value["template"]
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


def cross(templates: Mapping[str, str], prompts: Sequence[Any], reference: str) -> list[dict[str, Any]]:
    """Return every prompt in every template, all prompts of the first template first.

    Parameters
    ----------
    templates : mapping of str to str
        Of `named`.
    prompts : sequence
        Texts, or mappings with texts by indicator or one with ``{person}``.
    reference : str
        The indicator by whose text a prompt with several is called.

    Raises
    ------
    PydanticCustomError
        A prompt has a level `LEVEL` or `TEXT` already, or becomes too long.

    Examples
    --------
    >>> made = cross({"oil": "an oil painting of {}"}, [{"prompt": "a nurse"}], "prompt")
    >>> made[0]["prompt"], made[0]["levels"], made[0]["id"]
    ('an oil painting of a nurse', {'template': 'oil', 'text': 'a nurse'}, 'oil-a-nurse')
    """
    made, ids = [], {}
    for name, template in templates.items():
        for index, prompt in enumerate(prompts):
            there = {TEXT: prompt} if isinstance(prompt, str) else dict(prompt)
            levels, own = there.pop("levels", {}), there.pop("id", None)
            taken = next((one for one in (LEVEL, TEXT, SKILL) if one in levels), None)
            if taken is not None:
                raise fail(
                    f"expected no level `{taken}`, which templates give, got one: take it out",
                    at=("texts", index),
                )
            text = there.get(TEXT) or there.get(reference) or next(iter(there.values()), "")
            filled = {key: template.replace(PLACE, value) for key, value in there.items()}
            long = max((len(value) for value in filled.values()), default=0)
            if long > CHARACTERS:
                raise fail(
                    f"expected at most {CHARACTERS} characters, got {long}: shorten it", at=("texts", index)
                )
            identifier = slug(f"{name} {own or text}") or f"p{len(made):03d}"
            if identifier in ids:
                identifier = f"{identifier[:90]}-{len(made)}"
            ids[identifier] = True
            made.append({"id": identifier, **filled, "levels": {LEVEL: name, TEXT: text, **levels}})
    return made
