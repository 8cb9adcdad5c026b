"""Kinds of values in ``triplets.yaml`` beyond numbers and texts: their checks, and the errors of a wrong one.

Where a value may be of several kinds pydantic tells what is wrong with it as each of them; `expects` makes one error of
these: the innermost fault (``trace.windows[2]``), or what is expected.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticUndefined, core_schema

PERSON = "{person}"
WORKER = "TRIPTYCH_WORKER"  # environment variable: the number of a helper, by which it takes its GPU
DEVICES = "auto, cpu, cuda, cuda:1 or mps"
FORMS = {  # of texts: a pattern, and what it asks for
    (NAME := r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"): "letters, digits, `.`, `_` and `-`, a letter or digit first",
    (READER := r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"): (
        "letters, digits, `.`, `_` and `-`, a letter or digit first, 64 at most"
    ),
    (FLAVOUR := r"^[A-Za-z0-9_]+$"): "letters, digits and `_`",
    (KEY := r"^[a-z][a-z0-9_]{0,39}$"): "small letters, digits and `_`, a letter first, 40 at most",
    (LABEL := r"^[A-Za-z][A-Za-z0-9_]{0,39}$"): "letters, digits and `_`, a letter first, 40 at most",
    (ADDRESS := r"^(auto|local|none|(\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):\d{1,5})$"): (
        "auto, local, none or the address of a running Ray as host:port"
    ),
    (DEVICE := r"^(auto|cpu|mps|cuda(:[0-9]{1,3})?)$"): DEVICES,
    (TEXT := r"\S"): "a text",
}
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_Item = TypeVar("_Item")
HINT = "\0"  # in a message: where a note on what YAML made of a bare word goes; no value shown holds one
CHARACTERS = 2_000  # of a prompt; text encoders take fewer than 100 tokens
IMAGES = 500_000  # of a run: weeks of a GPU
LISTED = 4  # entries of a list that a repr shows
KeyPath = tuple[str | int, ...]  # keys and list indices that lead to a value in a configuration

_ERRORS = {  # by pydantic's type of a fault; a note on what YAML made of a bare word goes before the remedy
    "missing": "expected this key, found none: add it",
    "empty": "expected at least 1 entry, got none: write one, or leave the key out",
    "too_short": "expected at least {min_length} entries, got {actual_length}: write more",
    "too_long": "expected at most {max_length} entries, got {actual_length}: write fewer",
    "string_too_short": "expected a text, got an empty one: write one, or leave the key out",
    "string_too_long": "expected at most {max_length} characters, got {length}: shorten it",
    "string_pattern_mismatch": "expected {form}, got {got}: write another",
    "string_type": "expected a text, got {got}: {text_remedy}",
    "literal_error": "expected {expected}, got {got}: choose one of them",
    "int_type": "expected an integer, got {got}: write a whole number",
    "int_from_float": "expected an integer, got {got}: write a whole number",
    "float_type": "expected a number, got {got}: write it with a decimal point, as 1.0e-3",
    "finite_number": "expected a number that is finite, got {got}: choose another",
    "greater_than": "expected a number above {gt}, got {got}: choose another",
    "greater_than_equal": "expected a number of at least {ge}, got {got}: choose another",
    "less_than": "expected a number below {lt}, got {got}: choose another",
    "less_than_equal": "expected a number of at most {le}, got {got}: choose another",
    "multiple_of": "expected a multiple of {multiple_of}, got {got}: choose another",
    "bool_type": "expected true or false, got {got}: write one of them",
    "list_type": "expected a list, got {got}: write it so",
    "dict_type": "expected `key: value` lines, got {got}: write it so",
    "model_type": "expected `key: value` lines, got {got}: write it so",
}
_SPECIFIC = {
    "missing",
    "empty",
    "string_too_short",
    "string_too_long",
    "string_pattern_mismatch",
    "finite_number",
}

# name, folder or file of a model; the mark stands in the JSON schema, so that what names one can be found
Model = Annotated[str, Field(min_length=1, json_schema_extra={"format": "model"})]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(pattern=TEXT, max_length=CHARACTERS)]
Device = Annotated[str, Field(pattern=DEVICE)]


class Section(BaseModel):
    """Base of the sections of ``triplets.yaml``: strict, frozen pydantic models that refuse keys they do not define."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Self:
        """Return a section from a run record's plain data, unvalidated; raises ValueError if that is no mapping."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{cls.__name__}: expected fields, got {shown(values)}")
        fields = {}
        for name, field in cls.model_fields.items():
            if (key := field.alias or name) in values:
                value, sections = values[key], types_in(field.annotation, Section)
                if sections and get_origin(field.annotation) is dict:
                    value = dict(zip(value, map(sections[0].stored, value.values()), strict=True))
                elif sections and get_origin(field.annotation) is list:
                    value = [sections[0].stored(entry) for entry in value]
                elif sections and value is not None:
                    value = sections[0].stored(value)
                fields[name] = value
        return cls.model_construct(**fields)

    def __repr__(self) -> str:
        """Class name with the fields that differ from their defaults; of a list, the first four entries."""
        fields = []
        for name, value in self:
            if value != type(self).model_fields[name].default:
                text = repr(value)
                if isinstance(value, list) and len(value) > LISTED:
                    text = f"{repr(value[:LISTED])[:-1]}, ... {len(value) - LISTED} more]"
                fields.append(f"{name}={text}")
        return f"{type(self).__name__}({', '.join(fields)})"

    __str__ = __repr__


def types_in(annotation: Any, base: type = object) -> list[Any]:
    """List the classes in a type annotation, also within unions and containers, that are subclasses of `base`."""
    types = [annotation] if isinstance(annotation, type) and issubclass(annotation, base) else []
    for argument in get_args(annotation):
        types += types_in(argument, base)
    return types


def option(
    default: Any = PydanticUndefined,
    *,
    example: Any = None,
    unit: str = "",
    null: str = "",
    alters: Literal["", "nothing", "part", "observe", "trace", "measure", "report"] = "",
    **bounds: Any,
) -> Any:
    """Return a pydantic field for ``triplets.yaml``: default, bounds, unit, meaning of None (`null`), altered stage.

    From it and the field's docstring come ``--help``, what editors show, and ``docs/reference/configuration.md``. The
    first sentence stands alone in ``--help``; `null` describes None, which then is the default. A choice, or true and
    false, needs no `example`. `alters` is the stage whose results the field, or its section, alters, by default the
    images. ``nothing``: no stored byte depends on it. ``part``: a stored part names its own share of the value.
    """
    extra = dict(filter(all, (("unit", unit), ("null", null), ("alters", alters))))
    examples = None if example is None else [example]
    return Field(None if null else default, examples=examples, json_schema_extra=extra, **bounds)


def expects(text: str) -> GetPydanticSchema:
    """Return an ``Annotated`` marker: a value of no allowed type gives one error, ``expected TEXT, got VALUE``."""

    def wrap_schema(source: Any, handler: Callable[[Any], core_schema.CoreSchema]) -> core_schema.CoreSchema:
        """Return the schema of the type `source`, with its validation errors reduced to one."""

        def validate(value: Any, inner: Callable[[Any], Any]) -> Any:
            """Return the value as the type's own validator `inner` does; raise one error for all of its errors."""
            try:
                return inner(value)
            except ValidationError as error:
                raise _union_error(error, text, types_in(source, Section)) from None

        return core_schema.no_info_wrap_validator_function(validate, handler(source))

    return GetPydanticSchema(wrap_schema, lambda core, handler: {**handler(core), "takes": text})


def _union_error(error: ValidationError, text: str, sections: Sequence[type[Section]]) -> PydanticCustomError:
    """Return one error for a value of no allowed type: its innermost fault, else ``expected TEXT, got VALUE``."""
    faults = []
    for loc, specific, described in _list_faults(error, sections):
        loc = loc[1:] if loc and isinstance(loc[0], str) else loc
        faults.append((len(loc), specific, loc, described))
    depth, specific, loc, described = max(faults, key=lambda fault: fault[:2])
    if depth or specific:
        return fail(described, at=loc)
    first = error.errors(include_url=False)[0]
    remedy = text_remedy(first["input"]) if first["type"] == "string_type" else "choose one of them"
    return fail(f"expected {text}, got {shown(first['input'])}{HINT}: {remedy}")


def first_fault(error: ValidationError, section: type[Section]) -> tuple[KeyPath, str, int]:
    """Return the first error's key path and message (with the mark `HINT`), and how many other values are wrong."""
    faults = _list_faults(error, [section])
    loc, _, text = faults[0]
    return loc, text, len({loc for loc, *_ in faults}) - 1


def _list_faults(
    error: ValidationError, sections: Sequence[type[Section]]
) -> list[tuple[KeyPath, bool, str]]:
    """Return each error's key path, whether it is shown even where other types are allowed, and its message."""
    faults = []
    for fault in error.errors(include_url=False):
        kind, value, context = fault["type"], fault["input"], fault.get("ctx", {})
        loc = (*(step for step in fault["loc"] if step != "[key]"), *context.get("at", ()))
        if kind == "too_short" and context["min_length"] == 1:
            kind = "empty"
        if kind == "triptych":
            text = context["message"]
        elif kind == "extra_forbidden":
            text = _unknown_key_message(value, loc, sections)
        else:
            problem, _, remedy = _ERRORS[kind].rpartition(": ")
            if loc == ("name",) and kind == "string_pattern_mismatch":
                remedy = "write another `name:`"
            form, length = FORMS.get(context.get("pattern", "")), len(str(value))
            more = {"got": shown(value), "length": length, "text_remedy": text_remedy(value), "form": form}
            text = f"{problem}{HINT}: {remedy}".format(**context, **more)
        faults.append((loc, kind in _SPECIFIC or kind not in _ERRORS, text))
    return faults


def _unknown_key_message(value: Any, loc: KeyPath, sections: Sequence[type[Section]]) -> str:
    """Return the message for an unknown key, with the nearest key of its section or the top level, else all keys."""
    *within, name = map(str, loc)
    keys = outside = _fields_by_key(sections)
    for step in within:
        keys = _fields_by_key(types_in(keys[step].annotation, Section)) if step in keys else keys
    if close := difflib.get_close_matches(name, keys, 1):
        remedy = f"did you mean `{close[0]}`?"
    elif above := difflib.get_close_matches(name, outside, 1, 0.8):
        remedy = f"did you mean `{above[0]}`, outside of `{loc[0]}`?"
    else:
        remedy = f"known are {', '.join(keys)}"
    return f"unknown key, got {shown(value)}: {remedy}"


def _fields_by_key(sections: Sequence[type[Section]]) -> dict[str, FieldInfo]:
    """Return the pydantic fields of sections, keyed as in ``triplets.yaml`` (by alias or name)."""
    return {
        field.alias or name: field for section in sections for name, field in section.model_fields.items()
    }


def fail(message: str, **context: Any) -> PydanticCustomError:
    """Return an error with `message` for a pydantic validator to raise; ``at`` in `context` extends its key path."""
    # braces are pydantic's own placeholders: hand the text over as one
    return PydanticCustomError("triptych", "{message}", {"message": message, **context})


def shown(value: Any) -> str:
    """Return the ``repr`` of a value for an error message, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def text_remedy(value: Any) -> str:
    """Return the advice in an error for a value that is no text: ``quote it``, or ``write a text`` (None, list...)."""
    return "write a text" if value is None or isinstance(value, Mapping | list) else "quote it"


def require_printable(data: Any, at: KeyPath = ()) -> None:
    """Raise an error for control characters or lone surrogates in any text or key of plain data, found at `at`."""
    if isinstance(data, str) and (control := _CONTROL.search(data)):
        raise fail(
            f"expected text without control characters, got {control[0]!r} in {shown(data)}: take it out",
            at=at,
        )
    if isinstance(data, Mapping):
        for key, value in data.items():
            require_printable(key, at)
            require_printable(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            require_printable(value, (*at, index))


def _require_letter(value: str) -> str:
    """Return a text that has a letter or digit; raise an error for any other."""
    if not re.search(r"[^\W_]", value):
        raise fail(f"expected a word, got {shown(value)}: write one")
    return value


def require_placeholder_once(placeholder: str, noun: str, value: str, at: KeyPath = ()) -> str:
    """Return `value` if it has `placeholder`, where a `noun` such as *word* goes, exactly once; else raise an error."""
    if (count := value.count(placeholder)) != 1:
        near = "" if count else misspelt_placeholder(placeholder, value)
        remedy = f"did you mean {placeholder} for {near}" if near else f"write it where the {noun} goes"
        problem = f"expected a text with one {placeholder}, got {count or 'none'} in {shown(value)}"
        raise fail(f"{problem}: {remedy}", at=at)
    return value


def misspelt_placeholder(placeholder: str, text: str) -> str:
    """Return the first word in a text, in brackets of any kind, that resembles a placeholder; empty if none does.

    >>> [
    ...     misspelt_placeholder("{person}", f"a {text}")
    ...     for text in ("{Person}", "{{ persn }}", "[person]", "dog")
    ... ]
    ['{Person}', '{{ persn }}', '[person]', '']
    """
    name = placeholder.strip("{}")
    for match in re.finditer(r"[{\[<(]+\s*([^{}\[\]<>()]*?)\s*[}\]>)]+|\{\w+", text):
        inner = (match[1] or match[0].strip("{ ")).casefold()
        if difflib.get_close_matches(inner, [name, f"{name}s"], 1, 0.75):
            return match[0]
    return ""


def _unique_list(values: list[Any]) -> list[Any]:
    """Return a list without equal values; raise an error at the second of two that are equal."""
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            raise fail(f"{value!r} stands twice: keep one", at=(index,))
        seen.add(value)
    return values


require_person_placeholder = partial(require_placeholder_once, PERSON, "word")
Word = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_require_letter)]
Unique = Annotated[list[_Item], Field(json_schema_extra={"uniqueItems": True}), AfterValidator(_unique_list)]
AutoOrCount = Annotated[Literal["auto"] | Positive, expects("`auto` or an integer of at least 1")]
AutoOrBool = Annotated[Literal["auto"] | bool, expects("`auto`, true or false")]
