"""Kinds of values in ``triplets.yaml`` beyond numbers and texts: their checks, and the errors of a wrong one."""

from __future__ import annotations

import builtins
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetPydanticSchema
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from hooks.attention import definitions

PERSON = "{person}"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"  # of a run
READER = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"  # of images
FLAVOUR = r"^[A-Za-z0-9_]+$"  # of weights: `variant`
KEY = r"^[a-z][a-z0-9_]{0,39}$"  # of a question
LABEL = r"^[A-Za-z][A-Za-z0-9_]{0,39}$"  # of what is varied
ADDRESS = r"^(auto|local|none|(\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):\d{1,5})$"  # of a cluster
DEVICE = r"^(auto|cpu|mps|cuda(:[0-9]{1,3})?)$"  # on whatever machine
WORKER = (
    "TRIPTYCH_WORKER"  # environment variable of a helper: its number, by which it takes one of several GPUs
)
DEVICES = "auto, cpu, cuda, cuda:1 or mps"
TEXT = r"\S"  # of a text that is not blank
FORMS = {  # what of a text each asks for
    NAME: "letters, digits, `.`, `_` and `-`, a letter or digit first",
    READER: "letters, digits, `.`, `_` and `-`, a letter or digit first, 64 at most",
    FLAVOUR: "letters, digits and `_`",
    KEY: "small letters, digits and `_`, a letter first, 40 at most",
    LABEL: "letters, digits and `_`, a letter first, 40 at most",
    ADDRESS: "auto, local, none or the address of a running Ray as host:port",
    TEXT: "a text",
    DEVICE: DEVICES,
}
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_Item = TypeVar("_Item")
HINT = "\0"  # in a message: where a note on what YAML made of a bare word goes; no value shown holds one
TAKES = "takes"  # key of the JSON schema: what a place takes, in errors
CHARACTERS = 2_000  # of a prompt; text encoders take fewer than 100 tokens
WORKERS = 256  # processes of one machine
IMAGES = 500_000  # of a run: weeks of a GPU
STEPS = 1000  # of windows: more than any sampler has
LISTED = 4  # entries of a list that a repr shows


# name, folder or file of a model; the mark stands in the JSON schema, so that what names one can be found
Model = Annotated[str, Field(min_length=1, json_schema_extra={"format": "model"})]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Resamples = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Pixels = Annotated[int, Field(ge=8, le=8192)]
Step = Annotated[int, Field(ge=0, le=STEPS)]


@dataclass(frozen=True)
class Alters:
    """Mark of a field, or of a section: the stage whose results it alters. Without one: the images.

    ``nothing``: no stored byte hangs on it. ``part``: a part names its own share of it.
    """

    stage: Literal["nothing", "part", "observe", "trace", "measure", "report"]


class Section(BaseModel):
    """A section of the configuration: fields that are all named in it, each of just its kind."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Self:
        """Return a section from plain data of a run's record, which was checked when it was written."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{cls.__name__}: expected fields, got {shown(values)}")
        fields = {name: field.alias or name for name, field in cls.model_fields.items()}
        return cls.model_construct(
            **{
                name: _stored(cls.model_fields[name].annotation, values[key])
                for name, key in fields.items()
                if key in values
            }
        )

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield what is not a default."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name, None)
            if field.is_required() or value != field.get_default(call_default_factory=True):
                yield name, _Shortened(value) if isinstance(value, list) and len(value) > LISTED else value


def types_in(annotation: Any) -> list[type]:
    """Return the types that an annotation is made of, through unions and containers."""
    inner = [kind for argument in get_args(annotation) for kind in types_in(argument)]
    return [annotation, *inner] if isinstance(annotation, type) else inner


def section_in(annotation: Any) -> type[Section] | None:
    """Return the section that a field of this annotation holds; None if none."""
    return next((kind for kind in types_in(annotation) if issubclass(kind, Section)), None)


def _stored(annotation: Any, value: Any) -> Any:
    """Return a stored value of a field, its sections (those of a mapping or a list one by one) made again."""
    section = section_in(annotation)
    if section is None or value is None:
        return value
    match get_origin(annotation):
        case builtins.dict:
            return {key: section.stored(entry) for key, entry in value.items()}
        case builtins.list:
            return [section.stored(entry) for entry in value]
    return section.stored(value)


class _Shortened:
    """A long list as a repr shows it."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self._values[:LISTED]))}, ... {len(self._values) - LISTED} more]"


def option(text: str | None = None, *, example: Any = None, unit: str = "", null: str = "") -> FieldInfo:
    """Return what the schema says of a field of ``triplets.yaml``, in the field's ``Annotated``.

    From it and the field's docstring come ``--help``, what editors show, and ``docs/reference/configuration.md``. The
    first sentence stands alone in ``--help``; `null` is what nothing stands for, where that is the default. A choice,
    or true and false, needs no `example`.
    """
    more = {name: value for name, value in (("unit", unit), ("null", null)) if value}
    examples = None if example is None else [example]
    return Field(description=text, examples=examples, json_schema_extra=more)


def takes(text: str) -> FieldInfo:
    """Return what errors say that a value of one of several kinds may be, in the value's ``Annotated``."""
    return Field(json_schema_extra={TAKES: text})


def fail(message: str, **context: Any) -> PydanticCustomError:
    """Return the error that pydantic hands on; ``at`` in `context` is added to the place."""
    # braces are pydantic's own placeholders: hand the text over as one
    return PydanticCustomError("triptych", "{message}", {"message": message, **context})


def shown(value: Any) -> str:
    """Return a value as a message repeats it, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def as_text(value: Any) -> str:
    """Return the remedy where a text is expected: a number or a bare ``no`` in quotes is one, a list is not."""
    return "write a text" if value is None or isinstance(value, Mapping | list) else "quote it"


def require_printable(data: Any) -> None:
    """Refuse control characters and lone surrogates in any text or key of plain data."""
    for at, text in _texts_within(data, ()):
        if found := _CONTROL.search(text):
            raise fail(
                f"expected text without control characters, got {found[0]!r} in {shown(text)}: take it out",
                at=at,
            )


def _texts_within(data: Any, at: tuple) -> Iterator[tuple[tuple, str]]:
    if isinstance(data, str):
        if not data.isprintable():
            yield at, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts_within(key, at)
            yield from _texts_within(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _texts_within(value, (*at, index))


def _require_letter(value: str) -> str:
    if not any(char.isalnum() for char in value):
        raise fail(f"expected a word, got {shown(value)}: write one")
    return value


def one(place: str, noun: str) -> Callable[..., str]:
    """Return a check of a text that holds a place in braces once, where its `noun` goes."""

    def check(value: str, at: tuple = ()) -> str:
        if (count := value.count(place)) != 1:
            found = f"expected a text with one {place}, got {count or 'none'} in {shown(value)}"
            remedy = (
                f"did you mean {place} for {near}" if (near := nearest(place, value)) and not count else ""
            )
            raise fail(f"{found}: {remedy or f'write it where the {noun} goes'}", at=at)
        return value

    return check


def nearest(place: str, text: str) -> str:
    """Return what of a text looks like a place in braces that is written otherwise; empty where nothing does.

    >>> [nearest("{person}", f"a {text} at sea") for text in ("{Person}", "{{ persn }}", "[person]", "dog")]
    ['{Person}', '{{ persn }}', '[person]', '']
    """
    name = place.strip("{}")
    for match in re.finditer(r"[{\[<(]+\s*([^{}\[\]<>()]*?)\s*[}\]>)]+|\{\w+", text):
        inner = (match[1] or match[0].strip("{ ")).casefold()
        if difflib.get_close_matches(inner, [name, f"{name}s"], 1, 0.75):
            return match[0]
    return ""


one_person = one(PERSON, "word")


def _sentence_template(value: str) -> str:
    """A sentence with places for a subject, an attribute and, if there is one, a context."""
    places = re.findall(r"{([^{}]*)}", value)
    wrong = next((name for name in places if name not in ("subject", "attribute", "context")), None)
    if wrong is None and {"subject", "attribute"} <= {*places} and len({*places}) == len(places):
        return value
    found = f"{{{wrong}}}" if wrong else shown(value)
    raise fail(
        f"expected {{subject}}, {{attribute}} and {{context}}, each once at most, got {found}: write them"
    )


def _each_once(values: list[Any]) -> list[Any]:
    known = set()
    for index, value in enumerate(values):
        if value in known:
            raise fail(f"{value!r} stands twice: keep one", at=(index,))
        known.add(value)
    return values


def _definition(value: Any) -> Any:
    if value in (names := _definitions()):
        return value
    raise fail(f"expected one of {', '.join(names)}, got {shown(value)}{HINT}: choose one")


def _definitions() -> list[str]:
    return [*definitions.names(), "default"]


def _require_order(steps: list[int]) -> list[int]:
    if steps[0] >= steps[1]:
        raise fail(
            f"expected the first step and the one after the last, got {shown(steps)}: write it as [0, 10]"
        )
    return steps


# Values of several kinds are pydantic's unions: `takes` says what is expected, in errors.
Control = Annotated[bool | str, takes("true (the reference) or the name of an indicator")]
SentenceTemplate = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(_sentence_template)]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_require_letter)]
Text = Annotated[str, Field(pattern=TEXT, max_length=CHARACTERS)]
Unique = Annotated[list[_Item], Field(json_schema_extra={"uniqueItems": True}), AfterValidator(_each_once)]
Globs = Annotated[
    Literal["default"] | Annotated[list[str], Field(min_length=1)],
    takes("`default` or a list of sites such as [unet.*, latent]"),
]
AutoOrCount = Annotated[Literal["auto"] | Positive, takes("`auto` or an integer of at least 1")]
AutoOrWorkers = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=1, le=WORKERS)],
    takes(f"`auto` or an integer from 1 to {WORKERS}"),
]
Definition = Annotated[str, BeforeValidator(_definition, json_schema_input_type=Literal[*_definitions()])]
Device = Annotated[str, Field(pattern=DEVICE)]
_Window = Annotated[
    list[Step],
    Field(min_length=2, max_length=2),
    takes("the first step and the one after the last, as [0, 10]"),
    AfterValidator(_require_order),
]
Windows = Annotated[
    Step | list[_Window],
    takes(f"a number from 0 to {STEPS} or a list of windows such as [[0, 10], [10, 20]]"),
]


class SeedRange(Section):
    """Seeds of a given number, the first of which is `start`."""

    count: Annotated[int, Field(ge=1, le=IMAGES), option(unit="seeds", example=5)]
    """Number of seeds."""
    start: Annotated[Seed, option(unit="seed", example=100)] = 0
    """First of the seeds. Change it to get other images of the same prompts."""


def _seed_list(value: list[int] | SeedRange) -> list[int]:
    if not isinstance(value, SeedRange):
        return value
    if value.start + value.count > 2**63:
        raise fail(f"expected seeds from 0 to 2^63 - 1, got {value.start}: choose another", at=("start",))
    return list(range(value.start, value.start + value.count))


_WrittenSeeds = Annotated[
    Annotated[Unique[Seed], Field(min_length=1)] | SeedRange,
    takes("a list of integers or {count: N, start: S}"),
    AfterValidator(_seed_list),
]
Seeds = Annotated[list[int], GetPydanticSchema(lambda _, handler: handler(_WrittenSeeds))]
