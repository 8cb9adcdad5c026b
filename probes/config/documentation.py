"""What the schema says of every option of ``triplets.yaml``: for ``--help`` and the configuration page.

It is read from the JSON schema that is shipped, without importing pydantic, so that ``--help`` is quick.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from probes.json_text import parse_json

NAME = "NAME"  # in a place: a key of the user's own
_SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
_BOUNDS = {
    "minimum": "of at least",
    "exclusiveMinimum": "above",
    "maximum": "of at most",
    "exclusiveMaximum": "below",
}
_REQUIRED = "required"
FIELDS = "those of its fields"


@dataclass(frozen=True)
class OptionText:
    """An option as the schema describes it."""

    place: str  # sampler.steps
    text: str
    values: str
    unit: str  # of its numbers
    default: str  # as YAML; where it is null, what that stands for
    written: bool  # the default is YAML
    example: str  # as YAML

    @property
    def summary(self) -> str:
        """The first sentence, without its full stop."""
        return _SENTENCE.split(self.text)[0].removesuffix(".")


@dataclass(frozen=True)
class SectionText:
    """A section of the configuration: its place, what it is, and its options."""

    place: str
    text: str
    options: tuple[OptionText, ...]


@cache
def shipped_schema() -> Mapping[str, Any]:
    """Return the JSON schema that comes with the package; made anew where its file is damaged, to be printed again."""
    try:
        return parse_json((files(__package__) / "triplets.schema.json").read_text(encoding="utf-8"))
    except ValueError:
        from probes.config.schema import schema_text

        return parse_json(schema_text())


@cache
def option_at(place: str) -> OptionText:
    """Return what the shipped schema says of the option at a place, ``sampler.steps``."""
    return {option.place: option for section in sections(shipped_schema()) for option in section.options}[
        place
    ]


def flag_help(place: str) -> str:
    """Return a line for ``--help`` on the flag that overrides an option.

    >>> flag_help("sampler.steps")
    'Denoising steps of an image (steps; default: 30; for example 50)'
    """
    option = option_at(place)
    section = option_at(place.rpartition(".")[0]) if "." in place else option
    default = option.default if section.default == FIELDS else section.default
    example = option.example.strip("[]").replace(",", "").strip('"')
    facts = [option.unit, f"default: {default}", f"for example {example}"]
    return f"{option.summary} ({'; '.join(fact for fact in facts if fact)})"


def sections(schema: Mapping[str, Any]) -> Iterator[SectionText]:
    """Yield the sections of a JSON schema of ``triplets.yaml`` with their options, each after the one it is in."""
    yield from _sections("", schema, schema)


def _sections(place: str, node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[SectionText]:
    required = node.get("required", ())
    entries = {f"{place}.{name}" if place else name: entry for name, entry in node["properties"].items()}
    options = [
        OptionText(
            at,
            entry.get("description", ""),
            _values(entry, root),
            entry.get("unit", ""),
            *_default(entry, at.rpartition(".")[2] in required, root),
            flow_text(next(iter(entry.get("examples", [])), None)),
        )
        for at, entry in entries.items()
    ]
    text = " ".join(node.get("description", "").split("\n\n")[0].split())
    yield SectionText(place, text, tuple(options))
    for at, entry in entries.items():
        for below, inner in _inside(at, entry, root):
            yield from _sections(below, inner, root)


def _inside(place: str, node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[tuple[str, Mapping]]:
    """Sections that the value at a place may be, or hold under names of the user's own."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    if "properties" in node:
        yield place, node
    for kind in node.get("anyOf", ()):
        yield from _inside(place, kind, root)
    named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    for inner in named:
        if isinstance(inner, Mapping):
            yield from _inside(f"{place}.{NAME}", inner, root)


def _default(node: Mapping[str, Any], required: bool, root: Mapping[str, Any]) -> tuple[str, bool]:
    """A default, and whether it is YAML."""
    if required:
        return _REQUIRED, False
    if node.get("default") is None:
        return node.get("null", ""), False
    if isinstance(node["default"], Mapping) and any(not at for at, _ in _inside("", node, root)):
        return FIELDS, False
    return flow_text(_short(node["default"])), True


def _short(value: Any) -> Any:
    """A default without fields that say nothing, such as ``plural: null``."""
    if not isinstance(value, Mapping):
        return value
    return {name: _short(one) for name, one in value.items() if one is not None and one is not False}


def _values(node: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Which values a place takes, in words."""
    if "takes" in node:
        return node["takes"]
    if "$ref" in node:
        return "a section"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_values(kind, root) for kind in node["anyOf"]))
    if "const" in node or "enum" in node:
        return ", ".join(f"`{flow_text(one)}`" for one in node.get("enum", [node.get("const")]))
    match node.get("type"):
        case "integer" | "number" as kind:
            return " ".join(["an integer" if kind == "integer" else "a number", _range(node)]).strip()
        case "array":
            return f"a list of {_several(_values(node.get('items', {}), root))}"
        case "object" if "properties" not in node:
            named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
            inner = next((_values(one, root) for one in named if isinstance(one, Mapping)), "a value")
            return f"names, each with {inner}"
        case "boolean":
            return "true or false"
        case "null":
            return "null"
    return "a text"


def _several(values: str) -> str:
    """Values as the entries of a list: *texts* for *a text*."""
    return re.sub(r"^an? (text|integer|number|list)\b", r"\1s", values)


def _range(node: Mapping[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f"from {low:g} to {high:,g}" if high < 1e7 else f"of at least {low:g}"
    return " and ".join(f"{word} {node[name]:g}" for name, word in _BOUNDS.items() if name in node)


def flow_text(value: Any) -> str:
    """Return a value as a line of YAML.

    >>> flow_text({"count": 3}), flow_text(["a {person}", 0.5]), flow_text(None), flow_text(True)
    ('{count: 3}', '["a {person}", 0.5]', 'null', 'true')
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {flow_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow_text, value))}]"
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_/][\w./+*@ -]*(:\w[\w./+*@ -]*)*", value) and value.strip() == value
        return value if plain and value not in ("null", "true", "false", "yes", "no") else json.dumps(value)
    return json.dumps(value)
