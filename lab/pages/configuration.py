"""The page on every option of ``triplets.yaml``: ``python -m lab.pages.configuration >
docs/reference/configuration.md``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.templates import render
from probes.config.schema import flow_text, schema_text

PAGE = re.compile(r"docs/(\w+)/(\w+)\.md")
_BOUNDS = {
    "minimum": "of at least",
    "exclusiveMinimum": "above",
    "maximum": "of at most",
    "exclusiveMaximum": "below",
}
Node = Mapping[str, Any]  # of the JSON schema


@dataclass(frozen=True)
class OptionText:
    """A row of the page: an option as the schema describes it."""

    place: str  # sampler.steps
    text: str
    values: str
    unit: str  # of its numbers
    default: str  # as YAML; where it is null, what that stands for
    written: bool  # the default is YAML
    example: str  # as YAML; empty of a choice


@dataclass(frozen=True)
class SectionText:
    """A section of the configuration: its place, what it is, and its options."""

    place: str
    text: str
    options: tuple[OptionText, ...]


def page() -> str:
    """Return the whole page in Markdown."""
    schema = json.loads(schema_text())
    found = list(sections("", schema, schema))
    places = [section.place for section in found]
    titled = [(_title(one, places.count(one.place) > 1), one) for one in found]
    return PAGE.sub(_link, render("configuration", sections=titled))


def _title(section: SectionText, again: bool) -> str:
    """Return the heading of a section; where several stand at one place, with the option that tells them apart."""
    if not section.place:
        return "Top level"
    first = section.options[0].place.rpartition(".")[2]
    return f"`{section.place}:`{f' with `{first}`' if again else ''}"


def _link(named: re.Match[str]) -> str:
    """Return a link to a page that a text names, but where the page is written to."""
    folder, name = named.groups()
    return named[0] if name == "configuration" else f"[{name}](../{folder}/{name}.md)"


def sections(place: str, node: Node, root: Node) -> Iterator[SectionText]:
    """Yield the sections of a JSON schema of ``triplets.yaml`` with their options, each after the one it is in."""
    entries = {f"{place}.{name}" if place else name: entry for name, entry in node["properties"].items()}
    options = [
        OptionText(
            at,
            " ".join(entry.get("description", "").split()),
            _values(entry, root),
            entry.get("unit", ""),
            *_default(entry, at.rpartition(".")[2] in node.get("required", ()), root),
            flow_text(entry["examples"][0]) if "examples" in entry else "",
        )
        for at, entry in entries.items()
    ]
    text = " ".join(node.get("description", "").split("\n\n")[0].split())
    yield SectionText(place, text, tuple(options))
    for at, entry in entries.items():
        for below, inner in _sections_in(at, entry, root):
            yield from sections(below, inner, root)


def _sections_in(place: str, node: Node, root: Node) -> Iterator[tuple[str, Node]]:
    """Sections that the value at a place may be, or hold under names of the user's own."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    if "properties" in node:
        yield place, node
    for kind in node.get("anyOf", ()):
        yield from _sections_in(place, kind, root)
    for inner in _named(node):
        yield from _sections_in(f"{place}.NAME", inner, root)
    if "$ref" in node.get("items", {}):
        yield from _sections_in(place, node["items"], root)


def _named(node: Node) -> list[Node]:
    """Schemas of the values of a mapping whose keys are the user's own."""
    named = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    return [inner for inner in named if isinstance(inner, Mapping)]


def _default(node: Node, required: bool, root: Node) -> tuple[str, bool]:
    """A default, and whether it is YAML."""
    if required:
        return "required", False
    if node.get("default") is None:
        return node.get("null", ""), False
    if isinstance(node["default"], Mapping) and any(not at for at, _ in _sections_in("", node, root)):
        return "those of its fields", False
    return flow_text(_short(node["default"])), True


def _short(value: Any) -> Any:
    """A default without fields that say nothing, such as ``plural: null``."""
    if not isinstance(value, Mapping):
        return value
    return {name: _short(one) for name, one in value.items() if one is not None and one is not False}


def _values(node: Node, root: Node) -> str:
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
        case "array":  # *texts* for *a text*
            entries = _values(node.get("items", {}), root)
            plural = re.sub(r"^an? (text|integer|number|list|section)\b", r"\1s", entries)
            return f"a list of {plural}"
        case "object" if "properties" not in node:
            return f"names, each with {next((_values(one, root) for one in _named(node)), 'a value')}"
        case "boolean":
            return "true or false"
        case "null":
            return "null"
    return "a text"


def _range(node: Node) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None:
        return f"from {low:g} to {high:,g}" if high < 1e7 else f"of at least {low:g}"
    return " and ".join(f"{word} {node[name]:g}" for name, word in _BOUNDS.items() if name in node)


if __name__ == "__main__":
    print(page(), end="")
