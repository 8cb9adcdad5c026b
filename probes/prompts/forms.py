"""The forms that prompts of a configuration may have beside a list: captions or a set, a table, a grid, templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from probes.fields.types import (
    CHARACTERS,
    PERSON,
    TEXT,
    KeyPath,
    Positive,
    Section,
    Text,
    Word,
    expects,
    fail,
    first_fault,
    option,
    require_person_placeholder,
    require_placeholder_once,
    shown,
)

PLACE = re.compile(r"{([^{}]*)}")
Articles = Literal["fitting", "kept"]
HumanForms = Literal["inflected", "printed"]
LEVEL_COLUMNS = ("profession", "setting", "template", "model")  # of a table, are levels where none are named
_Model = TypeVar("_Model", bound=BaseModel)

# A prompt of a list (`probes.prompts.prompt.from_written`), for the JSON schema.
WrittenPrompt = Annotated[
    Annotated[str, Field(max_length=CHARACTERS)]
    | dict[str, Annotated[Text | dict[str, Text], expects("a text")]],
    expects(f"a text with one {PERSON}"),
]


def parse_form(model_class: type[_Model], fields: Mapping[str, Any], at: KeyPath) -> _Model:
    """Return a pydantic model validated from its fields, which have the key path `at`; raise an error if invalid."""
    try:
        return model_class.model_validate(dict(fields))
    except ValidationError as error:
        loc, text, _ = first_fault(error, model_class)
        raise fail(text, at=(*at, *loc)) from None


class PromptSource(Section):
    """Prompts from a file of captions or from a set."""

    from_: str = option(alias="from", min_length=1, example="captions_train2017.json")
    """A file beside triplets.yaml, a set of the package such as professions or gep, or a data set of the hub
    (docs/how_to/prompts.md)."""
    format: Literal["auto", "datasets"] = "auto"
    """`datasets` names a data set of the Hugging Face hub; a file is read by its ending."""
    column: str | None = option(None, null="caption, text and the like", example="text")
    """Column of a table that holds the captions."""
    split: str | None = option(None, null="the whole data set; test of paintskills", example="train")
    """Split of a data set of the hub, or of paintskills."""
    setting: str | None = option(None, null="all", example="neutral")
    """Setting of the set gep: neutral or explicit."""
    written: Literal["paper", "plain"] | None = option(
        None, null="plain for the bundled models, whose captions have neither, else paper", example="plain"
    )
    """Whether sentences of a set have a capital and a full stop (`paper`) or neither."""
    profession: list[str] | None = option(None, min_length=1, null="its 83", example=["nurse", "doctor"])
    """Professions of the set dalleval."""
    skill: list[Literal["object", "count", "spatial"]] | None = option(
        None, min_length=1, null="all", example=["count"]
    )
    """Skills of the set paintskills."""
    object: list[Word] | None = option(None, min_length=1, null="its 15", example=["dog"])
    """Objects of the set paintskills, or others."""
    human_words: HumanForms = option("inflected", example="printed")
    """Words for people that a caption may not hold: Table 2 of Wu et al. 2025, with other forms (`inflected`)
    or as printed."""
    articles: Articles = option("fitting", example="kept")
    """Whether *a* and *an* fit the word that follows, or stay as they were, as in the paper (`kept`)."""
    rule: Literal["one person", "wu2025"] | None = option(
        None, null="wu2025 with `preset: wu2025`, else one person", example="wu2025"
    )
    """Captions that are taken. `one person`: of one person or people of one gender, made neutral (*a man and
    his dog*: *a person and their dog*), none that names somebody; `wu2025`: with *person* or *people* and no
    other word for a human."""
    max_words: Positive = option(50, unit="words", example=30)
    """Longest caption that is taken."""


class PromptTable(Section):
    """A table of prompts, a row each: a column of texts, and columns of levels."""

    table: str = option(pattern=TEXT, example="prompts.csv")
    """CSV, TSV, JSONL, XLSX or Parquet file beside triplets.yaml. A column `id` names the prompts."""
    text: str | None = option(
        None, min_length=1, null="text or prompt, whichever is there", example="sentence"
    )
    """Column of the prompts' texts."""
    levels: list[Annotated[str, Field(min_length=1)]] | None = option(
        None, null="every other column", example=["profession", "setting"]
    )
    """Columns that are levels of the prompt, such as its profession. An empty cell is no level."""


def _require_no_braces(text: str) -> str:
    """Return `text` if it is not blank and has no ``{...}``; raise an error otherwise."""
    if not text.strip() or PLACE.search(text):
        raise fail(f"expected a text without braces, got {shown(text)}: write one")
    return text


_Phrase = Annotated[str, AfterValidator(_require_no_braces)]


class Grid(Section):
    """A sentence with places in braces, ``{person}`` among them, and for each other place a key with its levels."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[
        str,
        Annotated[
            Annotated[list[_Phrase], Field(min_length=1)]
            | Annotated[dict[_Phrase, _Phrase], Field(min_length=1)],
            expects("a list of levels, or the phrase of each ({boots: in boots})"),
        ],
    ]

    grid: Annotated[str, AfterValidator(require_person_placeholder)] = option(
        min_length=1, example="a {person} {attribute} {context}"
    )
    """A sentence with {person} and a place in braces for each axis; every other key is an axis with its
    levels, a list or phrases by name. Every combination is a prompt."""


_Template = Annotated[Text, AfterValidator(partial(require_placeholder_once, "{}", "text"))]
_Texts = Annotated[
    list[Annotated[Text | dict[str, Any], expects("a text, or a text with its levels")]]
    | PromptTable
    | Grid
    | dict[str, Any],
    expects("what `prompts` takes: a list, {table: prompts.csv}, {grid: ...} or {from: ...}"),
]


class Templates(Section):
    """Templates, and the texts that are put into each of them."""

    template: (
        Annotated[
            Annotated[list[_Template], Field(min_length=1)]
            | Annotated[dict[str, _Template], Field(min_length=1)],
            expects("a list of templates, or templates by name, each with one {}"),
        ]
        | None
    ) = option(None, null="texts as they stand", example=["a photo of {}", "a painting of {}"])
    """Sentences with {} where a text goes. Every text is put into each; a prompt keeps its template as a
    level."""
    system: (
        Annotated[
            Annotated[list[Text | None], Field(min_length=1)]
            | Annotated[dict[str, Text | None], Field(min_length=1)],
            expects("a list of system prompts, or system prompts by name"),
        ]
        | None
    ) = option(
        None,
        null="the model's own alone",
        example={"own": None, "plain": "Draw what is described."},
    )
    """System prompts; null is the model's own. Every prompt is drawn with each, and keeps it as a level. For
    Lumina-Image 2, Qwen-Image, Sana and Sana-Sprint."""
    texts: _Texts = option(example=["a nurse", "a pilot"])
    """Prompts that go into the templates, with or without {person}."""
