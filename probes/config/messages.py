"""What pydantic found in ``triplets.yaml``, as one line of this program's own: place, rule, value, remedy."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from probes.config.types import FORMS, HINT, shown
from probes.config.yaml import YamlSource, show
from probes.errors import UserError

_BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
_FIELD = re.compile(r"([a-z]+(?:\.[a-z_]+|\[\d+\])*): ")


def message(
    error: ValidationError, schema: type[BaseModel], source: YamlSource, options: Mapping[tuple, tuple]
) -> str:
    """Return the first fault as a line; `options` says which values came from which flag of the command line."""
    faults = error.errors()
    fault = faults[0]
    context = fault.get("ctx", {})
    loc = tuple(step for step in fault["loc"] if step != "[key]")
    loc = (*loc, *context.get("at", ()))
    option = _option(loc, options)
    place = option or f"{source.name}: {show(loc)}"
    hint = "" if option else source.hint(loc, _value_at(source.data, loc))
    more = f" ({len(faults) - 1} more like this)" if len(faults) > 1 else ""
    return f"{place}: {fault_text(fault, loc, schema, hint)}{more}"


@contextlib.contextmanager
def naming(schema: type[BaseModel], source: YamlSource, options: Mapping[tuple, tuple]) -> Iterator[None]:
    """Say of an error that begins with a field of the configuration in which file, or by which flag, it stands.

    Raises
    ------
    UserError
        The one that was raised inside, ``sampler.height: ...`` as ``triplets.yaml: sampler.height: ...``.
    """
    try:
        yield
    except UserError as error:
        field = _FIELD.match(str(error))
        loc = tuple(re.split(r"[.\[]", field[1])) if field else ()
        if field is None or loc[0] not in schema.model_fields:
            raise
        place = _option(loc, options) or f"{source.name}: {field[1]}"
        raise UserError(f"{place}: {str(error)[field.end() :]}") from None


def _option(loc: tuple, options: Mapping[tuple, tuple]) -> str | None:
    """The flag of the command line that gave what stands at a place; None where it stands in the file."""
    return next((flag for at, (flag, _) in options.items() if loc[: len(at)] == at), None)


def fault_text(fault: Mapping[str, Any], loc: tuple, schema: type[BaseModel], hint: str) -> str:
    """Return one of pydantic's faults without its place."""
    value, context = fault["input"], fault.get("ctx", {})
    match fault["type"]:
        case "triptych":
            return context["message"].replace(HINT, hint)
        case "extra_forbidden":
            known = _known_keys(loc[:-1], schema)
            close = difflib.get_close_matches(str(loc[-1]), known, 1)
            remedy = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}"
            return f"unknown key, got {shown(value)}: {remedy}"
        case "missing":
            return "expected this key, found none: add it"
        case "string_type":
            return f"expected a text, got {shown(value)}{hint}: quote it"
        case "string_too_short":
            return f"expected a text, got an empty one{hint}: write one, or leave the key out"
        case "string_pattern_mismatch":
            rule = FORMS.get(context["pattern"], f"a text of the form `{context['pattern']}`")
            remedy = "write another `name:`" if loc == ("name",) else "write another"
            return f"expected {rule}, got {shown(value)}{hint}: {remedy}"
        case "string_too_long":
            return f"expected at most {context['max_length']} characters, got {len(value)}{hint}: shorten it"
        case "too_short" | "too_long":
            return _entries(context, hint)
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            ((name, bound),) = ((key, context[key]) for key in _BOUNDS if key in context)
            return f"expected a number {_BOUNDS[name]} {bound}, got {shown(value)}{hint}: choose another"
        case "finite_number":
            return f"expected a number that is finite, got {shown(value)}{hint}: choose another"
        case "int_type" | "int_from_float":
            return f"expected an integer, got {shown(value)}{hint}: write a whole number"
        case "float_type":
            return f"expected a number, got {shown(value)}{hint}: write it with a decimal point, as 1.0e-3"
        case "bool_type":
            return f"expected true or false, got {shown(value)}{hint}: write one of them"
        case "literal_error":
            return f"expected {context.get('expected')}, got {shown(value)}{hint}: choose one of them"
        case "list_type" | "dict_type" | "model_type":
            kind = "a list" if fault["type"] == "list_type" else "`key: value` lines"
            return f"expected {kind}, got {shown(value)}{hint}: write it so"
    return f"{fault['msg']}, got {shown(value)}{hint}: change it".replace("Input should", "should")


def _entries(context: Mapping[str, Any], hint: str) -> str:
    """What is said of a list, or of `key: value` lines, with too few or too many entries."""
    least, most = context.get("min_length"), context.get("max_length")
    many, rule = (least, "at least") if least is not None else (most, "at most")
    remedy = (
        "write fewer" if least is None else "write one, or leave the key out" if many == 1 else "write more"
    )
    entries = "entry" if many == 1 else "entries"
    return f"expected {rule} {many} {entries}, got {context['actual_length'] or 'none'}{hint}: {remedy}"


def _value_at(data: Any, loc: tuple) -> Any:
    for step in loc:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _known_keys(loc: tuple, schema: type[BaseModel]) -> list[str]:
    model: Any = schema
    for step in loc:
        field = model.model_fields.get(step) if isinstance(step, str) else None
        model = field.annotation if field else None
        if get_origin(model) is dict:  # names of the user's own, as of indicators: what stands under each
            return list(getattr(get_origin(get_args(model)[1]), "model_fields", []))
        if not hasattr(model, "model_fields"):
            return []
    return [entry.alias or name for name, entry in model.model_fields.items()]
