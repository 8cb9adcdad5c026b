"""Messages on errors in ``triplets.yaml``, in one line each: place, rule, value, remedy.

Where a value may be of several kinds pydantic tells what is wrong with it as each of them. The error is then the
innermost fault (``trace.windows[2]``), or names what the place takes (`probes.fields.types.takes`).
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from probes.errors import UserError
from probes.fields.types import FORMS, HINT, TAKES, as_text, shown
from probes.fields.yaml import Loc, YamlSource, show

Node = Mapping[str, Any]  # of a JSON schema

_BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
_FIELD = re.compile(r"([a-z]+(?:\.[a-z_]+|\[\d+\])*): ")
# pydantic's name of a kind, where a user's own key could be
_LABEL = re.compile(r"(function-|constrained-|dict\[|list\[).*")
_OTHER_KIND = re.compile(
    r".*_type|literal_error|int_from_float|(greater|less)_than.*|multiple_of|too_(short|long)"
)
_EXPECTED = {  # by the type of a fault: what was expected, and a remedy
    "int_type": ("an integer", "write a whole number"),
    "int_from_float": ("an integer", "write a whole number"),
    "float_type": ("a number", "write it with a decimal point, as 1.0e-3"),
    "finite_number": ("a number that is finite", "choose another"),
    "bool_type": ("true or false", "write one of them"),
    "list_type": ("a list", "write it so"),
    "dict_type": ("`key: value` lines", "write it so"),
    "model_type": ("`key: value` lines", "write it so"),
}

# Keys that version 0.3 removed, by their place, and what to do instead; to go with the next release.
_FORMATS = "coco textcaps karpathy flickr30k flickr30k-csv gcc text csv tsv json jsonl xlsx parquet"
_REMOVED = {
    **{f"format={name}": "a file of captions is read by its ending" for name in _FORMATS.split()},
    "edit.kind=steer": "`keys_and_values` edits the words in closed form",
    "edit.kind=steer_choice": "`keys_and_values` edits the words in closed form",
    "observe.engine=transformers": "`groundingdino` reads its checkpoints, too",
    "observe.skin_tone.skin": "tones are read from the cheeks, as by the paper's mask",
    "observe.tagger": "`observe.ram` gives each image its own tags; a `vocabulary` is searched whole",
    "observe.tagger_top": "`observe.ram` gives each image its own tags; a `vocabulary` is searched whole",
    "edit.layers": "steering went with it; `keys_and_values` edits the words in closed form",
    "stop.of": "a run stops for `measure.primary`; for anything else generate a fixed number of prompts",
    "stop.over": "a run stops over prompts; for one prompt list all `seeds`",
    "trace.channels": "list the pooled text and the text encoders' embeddings in `trace.sites`",
    "trace.curve": "`trace.windows` patches each site within windows of steps",
    "trace.pairs": "the report compares all places at once with the sum of each; patch a pair with hooks.Intervention",
    "trace.shapley": "sufficiency and necessity of each place stand in `trace_shares`",
}


class _Fault(NamedTuple):
    """One of pydantic's faults: its place in the data, the JSON schema there, and where the union stands it is in."""

    loc: Loc
    type: str
    value: Any
    context: Mapping[str, Any]
    node: Node
    above: Node  # the JSON schema of what the place is in
    union: Loc | None  # of pydantic's own places


def message(
    error: ValidationError, schema: type[BaseModel], source: YamlSource, options: Mapping[tuple, tuple]
) -> str:
    """Return the first fault as a line; `options` says which values came from which flag of the command line."""
    loc, text, others = first_fault(error, schema)
    option = _flag_at(loc, options)
    place = option or f"{source.name}: {show(loc)}"
    hint = "" if option else source.hint(loc, _value_at(source.data, loc))
    return f"{place}: {text.replace(HINT, hint)}{f' ({others} more like this)' if others else ''}"


@contextlib.contextmanager
def naming(schema: type[BaseModel], source: YamlSource, options: Mapping[tuple, tuple]) -> Iterator[None]:
    """Add to errors that begin with a field of the configuration the file, or the flag, that it was given by."""
    try:
        yield
    except UserError as error:
        field = _FIELD.match(str(error))
        loc = tuple(re.split(r"[.\[]", field[1])) if field else ()
        if field is None or loc[0] not in schema.model_fields:
            raise
        place = _flag_at(loc, options) or f"{source.name}: {field[1]}"
        raise UserError(f"{place}: {str(error)[field.end() :]}") from None


def _flag_at(loc: tuple, options: Mapping[tuple, tuple]) -> str | None:
    """The flag of the command line that gave what stands at a place; None where it stands in the file."""
    return next((flag for at, (flag, _) in options.items() if loc[: len(at)] == at), None)


def first_fault(error: ValidationError, schema: type[BaseModel]) -> tuple[Loc, str, int]:
    """Return the place of the first fault, its text with `HINT` in it, and how many other places are wrong."""
    faults = [_locate(fault, _json_schema(schema)) for fault in error.errors(include_url=False)]
    first = faults[0]
    same = [fault for fault in faults if fault.union is not None and fault.union == first.union] or [first]
    fault = max(same, key=lambda fault: (len(fault.loc), not _OTHER_KIND.fullmatch(fault.type)))
    others = {fault.loc if fault.union is None else ("union", *fault.union) for fault in faults}
    return fault.loc, _describe(fault, _json_schema(schema)), len(others) - 1


@cache
def _json_schema(schema: type[BaseModel]) -> Node:
    return schema.model_json_schema()


def _locate(fault: Mapping[str, Any], root: Node) -> _Fault:
    """Locate a fault in the data: of pydantic's place those steps are left out that name a kind of value and no key."""
    node, above, union = root, root, None
    loc: Loc = ()
    for number, step in enumerate(fault["loc"]):
        kind = len(_value_kinds(node, root)) > 1 and _LABEL.fullmatch(str(step))
        below = None if kind else _entry_schema(node, step, root)
        extra = fault["type"] == "extra_forbidden" and number == len(fault["loc"]) - 1
        if below is not None or extra:
            loc, node, above = (*loc, step), below or {}, node
        elif union is None and step != "[key]":
            union = fault["loc"][:number]
    context = fault.get("ctx", {})
    loc = (*loc, *context.get("at", ()))
    return _Fault(loc, fault["type"], fault["input"], context, node, above, union)


def _value_kinds(node: Node, root: Node) -> list[Node]:
    """The kinds of value that a place of a JSON schema takes, null left out."""
    if "$ref" in node:
        return _value_kinds(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    if "anyOf" in node:
        return [kind for inner in node["anyOf"] for kind in _value_kinds(inner, root)]
    return [] if node.get("type") == "null" else [node]


def _entry_schema(node: Node, step: str | int, root: Node) -> Node | None:
    """The JSON schema of an entry, None where there is no such."""
    for kind in _value_kinds(node, root):
        named = [*kind.get("patternProperties", {}).values(), kind.get("additionalProperties")]
        below = (
            kind.get("items") if isinstance(step, int) else kind.get("properties", {}).get(step) or named[0]
        )
        if isinstance(below, Mapping):
            return below
    return None


def _describe(fault: _Fault, root: Node) -> str:
    """Describe a fault: what was expected, what was found, the remedy."""
    value, context = fault.value, fault.context
    match fault.type:
        case "triptych":
            return context["message"]
        case "extra_forbidden" if removed := _REMOVED.get(".".join(map(str, fault.loc))):
            return f"expected no such key, which 0.3 removed, got {shown(value)}: {removed}"
        case "extra_forbidden":
            known = [key for kind in _value_kinds(fault.above, root) for key in kind.get("properties", {})]
            close = difflib.get_close_matches(str(fault.loc[-1]), known, 1)
            above = difflib.get_close_matches(str(fault.loc[-1]), root.get("properties", {}), 1, 0.8)
            remedy = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}"
            if above and not close:
                remedy = f"did you mean `{above[0]}`, outside of `{fault.loc[0]}`?"
            return f"unknown key, got {shown(value)}: {remedy}"
        case "missing":
            return "expected this key, found none: add it"
        case "string_too_short":
            return f"expected a text, got an empty one{HINT}: write one, or leave the key out"
        case "string_too_long":
            return f"expected at most {context['max_length']} characters, got {len(value)}{HINT}: shorten it"
        case "string_pattern_mismatch":
            expected = FORMS.get(context["pattern"], f"a text of the form `{context['pattern']}`")
            remedy = "write another `name:`" if fault.loc == ("name",) else "write another"
        case kind if _OTHER_KIND.fullmatch(kind) and TAKES in fault.node:
            expected, remedy = fault.node[TAKES], "choose one of them"
            if not isinstance(value, str) and _is_text(_value_kinds(fault.node, root)[0]):
                remedy = as_text(value)
        case "too_short" | "too_long":
            return _count_error(context)
        case "literal_error" if removed := _REMOVED.get(f"{'.'.join(map(str, fault.loc))}={value}"):
            return f"expected {context['expected']}, got {shown(value)}, which 0.3 removed: {removed}"
        case "literal_error":
            expected, remedy = context["expected"], "choose one of them"
        case "string_type":
            expected, remedy = "a text", as_text(value)
        case kind if kind in _EXPECTED:
            expected, remedy = _EXPECTED[kind]
        case _:
            ((name, bound),) = ((name, context[name]) for name in _BOUNDS if name in context)
            expected, remedy = f"a number {_BOUNDS[name]} {bound}", "choose another"
    return f"expected {expected}, got {shown(value)}{HINT}: {remedy}"


def _is_text(node: Node) -> bool:
    return node.get("type") == "string" and not {"enum", "const"} & set(node)


def _count_error(context: Mapping[str, Any]) -> str:
    """The error of a list, or of `key: value` lines, with too few or too many entries."""
    least, most = context.get("min_length"), context.get("max_length")
    many, rule = (least, "at least") if least is not None else (most, "at most")
    remedy = (
        "write fewer" if least is None else "write one, or leave the key out" if many == 1 else "write more"
    )
    entries = "entry" if many == 1 else "entries"
    return f"expected {rule} {many} {entries}, got {context['actual_length'] or 'none'}{HINT}: {remedy}"


def _value_at(data: Any, loc: tuple) -> Any:
    for step in loc:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data
