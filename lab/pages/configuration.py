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
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
Node = Mapping[str, Any]  # of the JSON schema


@dataclass(frozen=True)
class OptionText:
    """A row of the page: an option as the schema describes it."""

    place: str  # sampler.steps
    text: str
    values: str  # with their unit
    default: str  # as YAML; where it is null, what that stands for; empty of a section
    example: str  # as YAML; empty where it would be a mere number, true, or a section


@dataclass(frozen=True)
class SectionText:
    """A section of the configuration: its place, what it is, and its options."""

    place: str
    text: str
    options: tuple[OptionText, ...]


def page() -> str:
    """Return the whole page in Markdown."""
    schema = json.loads(schema_text())
    found = list(sections("", schema, schema, []))
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


def sections(place: str, node: Node, root: Node, shown: list[Node]) -> Iterator[SectionText]:
    """Yield the sections of a JSON schema of ``triplets.yaml`` and their options, each after the one it is in, once."""
    entries = {f"{place}.{name}" if place else name: entry for name, entry in node["properties"].items()}
    below = {at: list(_sections_in(at, entry, root)) for at, entry in entries.items()}
    options = [
        OptionText(
            at,
            " ".join(entry.get("description", "").split()),
            ", ".join(filter(None, (_values(entry, root), entry.get("unit")))),
            _default(entry, at.rpartition(".")[2] in node.get("required", ()), at in dict(below[at])),
            _example(entry, at in dict(below[at])),
        )
        for at, entry in entries.items()
    ]
    text = " ".join(node.get("description", "").split("\n\n")[0].split())
    yield SectionText(place, text, tuple(options))
    new = [one for found in below.values() for one in found if one[1] not in shown]
    shown.extend(inner for _, inner in new)
    for at, inner in new:
        yield from sections(at, inner, root, shown)


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


def _default(node: Node, required: bool, section: bool) -> str:
    if required:
        return "required"
    if node.get("default") is None:
        return node.get("null", "")
    if section and isinstance(node["default"], Mapping):
        return ""
    text = flow_text(_short(node["default"]))
    if len(text) > 120:  # a list of sentences
        return f"`{flow_text(node['default'][:1])}` and {len(node['default']) - 1} others"
    return f"`{text}`"


def _example(node: Node, section: bool) -> str:
    """An example that tells more than what the option takes."""
    value = node.get("examples", [0])[0]
    told = isinstance(value, str | list) or (isinstance(value, Mapping) and not section)
    return flow_text(value) if told else ""


def _short(value: Any) -> Any:
    """A default without fields that say nothing, such as ``plural: null``."""
    if not isinstance(value, Mapping):
        return value
    return {name: _short(one) for name, one in value.items() if one is not None and one is not False}


def _values(node: Node, root: Node) -> str:
    """Which values a place takes, in words; null, where it is the default, goes without saying."""
    if "takes" in node:
        return node["takes"]
    if "$ref" in node:
        return "section"
    if "anyOf" in node:
        kinds = dict.fromkeys(_values(kind, root) for kind in node["anyOf"])
        return " or ".join(kind for kind in kinds if kind != "null" or node.get("default") is not None)
    if "const" in node or "enum" in node:
        return ", ".join(f"`{flow_text(one)}`" for one in node.get("enum", [node.get("const")]))
    match node.get("type"):
        case "integer" | "number" as kind:
            return f"{kind} {_range(node)}".strip()
        case "array":  # *texts* for *text*
            return "list of " + re.sub(r"^(text|number|list|section)\b", r"\1s", _values(node["items"], root))
        case "object" if "properties" not in node:
            return f"names, each with {next((_values(one, root) for one in _named(node)), 'a value')}"
        case "boolean":
            return "true/false"
        case "null":
            return "null"
    return "text"


def _range(node: Node) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None and high < 1e7:
        return f"{low} to {high:,}"
    ends = {name: node[name] for name in _BOUNDS if abs(node.get(name, 1e9)) < 1e7}
    return ", ".join(f"{_BOUNDS[name]} {end:g}" for name, end in ends.items())


if __name__ == "__main__":
    print(page(), end="")
