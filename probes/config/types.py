"""Kinds of values in ``triplets.yaml`` beyond numbers and texts: their checks, and what is said of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from hooks.attention import definitions
from probes.config import presets
from probes.models import devices

PERSON = "{person}"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"  # of a run
READER = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"  # of images
FLAVOUR = r"^[A-Za-z0-9_]+$"  # of weights: `variant`
KEY = r"^[a-z][a-z0-9_]{0,39}$"  # of a question
LABEL = r"^[A-Za-z][A-Za-z0-9_]{0,39}$"  # of what is varied
FORMS = {  # what of a text each asks for
    NAME: "letters, digits, `.`, `_` and `-`, a letter or digit first",
    READER: "letters, digits, `.`, `_` and `-`, a letter or digit first, 64 at most",
    FLAVOUR: "letters, digits and `_`",
    KEY: "small letters, digits and `_`, a letter first, 40 at most",
    LABEL: "letters, digits and `_`, a letter first, 40 at most",
}
HINT = "\0"  # in a message: where a note on what YAML made of a bare word goes; no value shown holds one
CHARACTERS = 2_000  # of a prompt; text encoders take fewer than 100 tokens
WORKERS = 256  # processes of one machine
IMAGES = 500_000  # of a run: weeks of a GPU
POINTS = 1000  # of a curve, windows: more than any sampler has steps
EXACT = 10  # cross-attentions of which every subset is drawn: 1,024
PERMUTATIONS = 1000


@dataclass(frozen=True)
class MayBePath:
    """Mark of a text that may be the path of a file or folder of this machine, see `probes.runs.recorded_paths`."""


PathOrName = Annotated[str, MayBePath()]
# name, folder or file of a model; the mark stands in the JSON schema, so that what names one can be found
Model = Annotated[PathOrName, Field(min_length=1, json_schema_extra={"format": "model"})]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Resamples = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Pixels = Annotated[int, Field(ge=8, le=8192)]
Step = Annotated[int, Field(ge=0, le=POINTS)]
Points = Annotated[int, Field(ge=0, le=POINTS)]


@dataclass(frozen=True)
class Alters:
    """Mark of a field, or of a section: the stage whose results it alters. Without one: what is drawn.

    ``nothing``: no stored byte hangs on it. ``part``: a part names its own share of it.
    """

    stage: Literal["nothing", "part", "observe", "trace", "measure", "report"]


class SeedRange(TypedDict):
    """So many seeds, the first of which is `start` (0 unless told)."""

    count: Required[Annotated[int, Field(ge=1, le=IMAGES)]]
    start: NotRequired[Annotated[int, Field(ge=0, lt=2**63)]]


def fail(message: str, **context: Any) -> PydanticCustomError:
    """Return the error that pydantic hands on; ``at`` in `context` is added to the place."""
    # braces are pydantic's own placeholders: hand the text over as one
    return PydanticCustomError("triptych", "{message}", {"message": message, **context})


def shown(value: Any) -> str:
    """Return a value as a message repeats it, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def require_printable(data: Any) -> None:
    """Refuse control characters and lone surrogates in any text or key of plain data."""
    for at, text in _texts(data, ()):
        for char in text:
            if (
                (char < " " and char not in "\t\n\r")
                or "\x7f" <= char <= "\x9f"
                or "\ud800" <= char <= "\udfff"
            ):
                raise fail(
                    f"expected text without control characters, got {char!r} in {shown(text)}: take it out",
                    at=at,
                )


def _texts(data: Any, at: tuple) -> Iterator[tuple[tuple, str]]:
    if isinstance(data, str):
        if not data.isprintable():
            yield at, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts(key, at)
            yield from _texts(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _texts(value, (*at, index))


def _control(value: Any) -> Any:
    if isinstance(value, (bool, str)):
        return value
    raise fail(
        f"expected true (the reference) or the name of an indicator, got {shown(value)}{HINT}: name one"
    )


def _word(value: str) -> str:
    if not any(char.isalnum() for char in value):
        raise fail(f"expected a word, got {shown(value)}: write one")
    return value


def indicator(value: Any) -> Any:
    """Take a bare word for ``{word: ...}``."""
    if not isinstance(value, str) and not isinstance(value, Mapping) and not hasattr(value, "word"):
        raise fail(f"expected a word, or {{word: ..., control: true}}, got {shown(value)}{HINT}: quote it")
    return {"word": value} if isinstance(value, str) else value


def _prompt(value: Any) -> Any:
    if isinstance(value, Mapping):
        for key, text in value.items():
            if key == "levels":
                _levels(text)
                continue
            if not isinstance(text, str) or not text.strip():
                raise fail(f"expected a text for `{key}`, got {shown(text)}{HINT}: quote it", at=(key,))
            _short(text, 100 if key == "id" else CHARACTERS, at=(key,))
        if has_template(value):
            _template(value["text"], at=("text",))
        return dict(value)
    if not isinstance(value, str):
        raise fail(f"expected a text with one {PERSON}, got {shown(value)}{HINT}: quote it")
    return _template(value)


def has_template(prompt: Any) -> bool:
    """Whether a prompt that is a mapping has a text with ``{person}`` in the place of one for each indicator."""
    return PERSON in str(prompt.get("text", ""))


def _levels(value: Any) -> None:
    """Refuse what is no mapping from the axes of a grid to where on them a prompt stands."""
    if not isinstance(value, Mapping) or not value:
        raise fail(
            f"expected the level of each axis, as {{context: riding a bike}}, got {shown(value)}: write one",
            at=("levels",),
        )
    for axis, level in value.items():
        if not isinstance(level, str) or not level.strip():
            raise fail(f"expected a text, got {shown(level)}{HINT}: quote it", at=("levels", axis))
        _short(level, CHARACTERS, at=("levels", axis))


def _template(value: str, at: tuple = ()) -> str:
    _short(value, CHARACTERS, at)
    if value.count(PERSON) != 1:
        count = value.count(PERSON) or "none"
        raise fail(
            f"expected a text with one {PERSON}, got {count} in {shown(value)}: write it where the word goes",
            at=at,
        )
    if re.search(r"[{}]", value.replace(PERSON, "")):
        raise fail(f"expected no braces but {PERSON}, got {shown(value)}: take them out", at=at)
    return value


def _short(text: str, limit: int, at: tuple = ()) -> None:
    if len(text) > limit:
        raise fail(f"expected at most {limit} characters, got {len(text)}: shorten it", at=at)


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


def _seeds(value: Any) -> Any:
    if isinstance(value, Mapping):
        unknown = set(value) - {"count", "start"}
        count, start = value.get("count"), value.get("start", 0)
        if unknown or type(count) is not int or type(start) is not int or count < 1:
            raise fail(
                f"expected a list of integers or {{count: N, start: S}}, got {shown(dict(value))}:"
                " write whole numbers"
            )
        if count > IMAGES:
            raise fail(f"expected at most {IMAGES} seeds, got {count}: write fewer", at=("count",))
        if not 0 <= start <= 2**63 - count:
            raise fail(f"expected seeds from 0 to 2^63 - 1, got {start}: choose another", at=("start",))
        return list(range(start, start + count))
    if not isinstance(value, list):
        raise fail(f"expected a list of integers, got {shown(value)}{HINT}: write it as [0, 1]")
    before = set()
    for index, seed in enumerate(value):
        if type(seed) is not int:
            raise fail(f"expected an integer, got {shown(seed)}{HINT}: write a whole number", at=(index,))
        if not 0 <= seed < 2**63:
            raise fail(f"expected an integer from 0 to 2^63 - 1, got {seed}: choose another", at=(index,))
        if seed in before:
            raise fail(f"seed {seed} stands twice: keep one", at=(index,))
        before.add(seed)
    return value


def _default_or_globs(value: Any) -> Any:
    if value == "default" or (
        isinstance(value, list) and value and all(isinstance(item, str) for item in value)
    ):
        return value
    raise fail(
        f"expected `default` or a list of sites such as [unet.*, latent], got {shown(value)}: list them"
    )


def either(expected: str, takes: Callable[[Any], bool]) -> BeforeValidator:
    """Return a check of what may be of two kinds, of which pydantic tells as of two faults."""

    def check(value: Any) -> Any:
        if takes(value):
            return value
        raise fail(f"expected {expected}, got {shown(value)}{HINT}: choose one of them")

    return BeforeValidator(check)


def texts(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def points(value: Any) -> bool:
    """Whether a value is a number of points, or of windows, of a run's steps."""
    return type(value) is int and 0 <= value <= POINTS


def _auto_or_count(value: Any) -> Any:
    if value == "auto" or (type(value) is int and 1 <= value < 2**31):
        return value
    raise fail(f"expected `auto` or an integer of at least 1, got {shown(value)}{HINT}: choose one of them")


def _auto_or_workers(value: Any) -> Any:
    if value == "auto" or (type(value) is int and 1 <= value <= WORKERS):
        return value
    raise fail(
        f"expected `auto` or an integer from 1 to {WORKERS}, got {shown(value)}{HINT}: choose one of them"
    )


def _definition(value: Any) -> Any:
    if value in definitions.names():
        return value
    raise fail(f"expected one of {', '.join(definitions.names())}, got {shown(value)}{HINT}: choose one")


def _preset(value: Any) -> Any:
    if value in presets.names():
        return value
    raise fail(f"expected one of {', '.join(presets.names())}, got {shown(value)}{HINT}: choose one")


def _device(value: str) -> str:
    if devices.is_name(value):
        return value
    raise fail(f"expected {devices.EXPECTED}, got {shown(value)}: choose one of them")


def _windows(value: Any) -> Any:
    """A number of windows, or the first step of each and the one after its last."""
    if points(value):
        return value
    if not isinstance(value, list):
        raise fail(
            f"expected a number from 0 to {POINTS} or a list of windows, got {shown(value)}{HINT}:"
            " write it as 4 or [[0, 10], [10, 20]]"
        )
    for index, window in enumerate(value):
        fine = isinstance(window, list) and len(window) == 2 and all(type(step) is int for step in window)
        if not fine or not 0 <= window[0] < window[1]:
            raise fail(
                f"expected the first step and the one after the last, got {shown(window)}: write it as [0, 10]",
                at=(index,),
            )
    return value


def _permutations(value: Any) -> Any:
    if value is False or value == "exact" or (type(value) is int and 1 <= value <= PERMUTATIONS):
        return value
    raise fail(
        f"expected false, `exact` or a number of permutations from 1 to {PERMUTATIONS}, got {shown(value)}{HINT}:"
        " choose one of them"
    )


Control = Annotated[bool | str, BeforeValidator(_control)]
SentenceTemplate = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(_sentence_template)]
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_word)]
Prompt = Annotated[str | dict[str, str | dict[str, str]], BeforeValidator(_prompt)]
Seeds = Annotated[
    list[int], BeforeValidator(_seeds, json_schema_input_type=list[Seed] | SeedRange), Field(min_length=1)
]
Globs = Annotated[Literal["default"] | list[str], BeforeValidator(_default_or_globs)]
AutoOrWorkers = Annotated[
    int | Literal["auto"],
    BeforeValidator(
        _auto_or_workers, json_schema_input_type=Annotated[int, Field(ge=1, le=WORKERS)] | Literal["auto"]
    ),
]
AutoOrCount = Annotated[
    int | Literal["auto"],
    BeforeValidator(_auto_or_count, json_schema_input_type=Positive | Literal["auto"]),
]
Definition = Annotated[
    str, BeforeValidator(_definition, json_schema_input_type=Literal[*definitions.names()])
]
Preset = Annotated[str, BeforeValidator(_preset, json_schema_input_type=Literal[*presets.names()])]
Device = Annotated[str, AfterValidator(_device)]
Windows = Annotated[
    Points | list[list[int]],
    BeforeValidator(
        _windows, json_schema_input_type=Points | list[Annotated[list[Step], Field(min_length=2)]]
    ),
]
Permutations = Annotated[
    Literal[False, "exact"] | int,
    BeforeValidator(
        _permutations,
        json_schema_input_type=Literal[False, "exact"] | Annotated[int, Field(ge=1, le=PERMUTATIONS)],
    ),
]
