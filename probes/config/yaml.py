"""Reading YAML without its traps: duplicate keys, keys that are no text, octal and sexagesimal numbers, bombs.

A YAML 1.1 reader turns ``no`` into ``False``, ``010`` into 8 and ``1:30`` into 90, lets the second of two equal
keys win in silence, and unfolds a few hundred bytes of aliases into more values than fit a machine. Numbers of that
kind, equal keys, tags, numbers beyond 64 bits, nesting and aliases beyond what a configuration needs are refused
here; for the rest the text that stood in the file is kept beside its value, so that an error can show what was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from probes.errors import UserError
from probes.storage.paths import require_regular

DEPTH = 20  # lists and mappings within each other; the schema has five
BYTES = 4 << 20  # of a file
UNFOLDED = 10_000  # values that aliases and merges may add to those written

_TAG = "tag:yaml.org,2002:"
_INT, _STR, _MERGE = f"{_TAG}int", f"{_TAG}str", f"{_TAG}merge"
_SCALARS = {f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "timestamp", "str")}
_COLLECTIONS = {f"{_TAG}seq", f"{_TAG}map"}
# what YAML 1.1 allows in a file: neither control characters nor halves of a surrogate pair
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MISREAD = re.compile(r"^[-+]?0[0-7_]+$|:")  # octal and sexagesimal numbers
_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's reads ten times as fast
Loc = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlSource:
    """A YAML file: its values, and for every scalar the text and the line it was written on."""

    name: str
    text: str
    data: Any
    written: dict[Loc, tuple[str, int]] = field(default_factory=dict)

    def hint(self, loc: Loc, value: Any) -> str:
        """What YAML made of a bare word: `` (YAML reads a bare `no` as False)``, or nothing."""
        raw, _ = self.written.get(loc, ("", 0))
        if isinstance(value, str) or raw == repr(value):
            return ""
        if value is None:
            return f" (YAML reads a bare `{raw}` as nothing)" if raw else " (nothing is written there)"
        if raw:
            return f" (YAML reads a bare `{raw}` as {_kind(value)})"
        return ""


def show(loc: Loc) -> str:
    """A path through the file as a reader writes it.

    >>> show(("prompts", 3, "neutral"))
    'prompts[3].neutral'
    """
    text = ""
    for key in loc:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def read_yaml(path: str | Path) -> YamlSource:
    """Read a YAML file, refusing what a reader of the file would not expect.

    Raises
    ------
    UserError
        The file cannot be read or parsed, holds a key twice, a key that is no text, a number in octal or
        sexagesimal notation or beyond 64 bits, a tag, control characters, or values nested or repeated by aliases
        beyond measure.
    """
    path = require_regular(Path(path))
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES + 1)
        if len(data) > BYTES:
            raise UserError(
                f"{path}: expected at most {BYTES >> 20} MiB, got more: write less, or several runs"
            )
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except IsADirectoryError:
        raise UserError(f"{path}: expected a YAML file, got a folder: name the file") from None
    except FileNotFoundError:
        raise UserError(f"{path}: expected a YAML file, found none: check the path") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: expected UTF-8 text, got byte {error.start} undecodable: save as UTF-8"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): check its permissions") from None
    except ValueError as error:  # a NUL, a lone surrogate
        raise UserError(f"{path}: expected the path of a file, got one with {error}: check it") from None
    return parse_yaml(text, path.name)


def parse_yaml(text: str, name: str) -> YamlSource:
    """Parse YAML text; `name` stands for the file in errors (see :func:`read_yaml`)."""
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        line = text.count("\n", 0, forbidden.start()) + 1
        raise UserError(
            f"{name}: line {line}: expected text without control characters, got {forbidden[0]!r}: take it out"
        )
    written: dict[Loc, tuple[str, int]] = {}
    reader = _Reader(name, written)
    try:
        node = reader.compose(yaml.parse(text, Loader=_Parser))
    except yaml.MarkedYAMLError as error:
        raise UserError(_syntax(error, text, name)) from None
    except yaml.YAMLError as error:
        raise UserError(f"{name}: not valid YAML ({error}): mend that place") from None
    data = None if node is None else reader.value(node, ())
    return YamlSource(name=name, text=text, data=data, written=written)


def _syntax(error: yaml.MarkedYAMLError, text: str, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = text.splitlines()[mark.line].strip() if mark and mark.line < len(text.splitlines()) else ""
    place = f"{name}: line {mark.line + 1}" if mark else name
    remedy = "mend that line"
    if re.match(r"(-\s*|[\w ]+:\s*)?\{", line):
        remedy = "put a text that begins with { in quotes"
    return f"{place}: not valid YAML ({error.problem or error.context}), found `{line[:100]}`: {remedy}"


class _Reader:
    """From YAML's events to values: first a tree of what is written, then the values it stands for."""

    def __init__(self, name: str, written: dict[Loc, tuple[str, int]]):
        self.name, self.written = name, written
        self.anchors: dict[str, yaml.Node] = {}
        self.resolver = yaml.resolver.Resolver()
        self.constructor = yaml.constructor.SafeConstructor()
        self.left = UNFOLDED  # values that may still be made

    # The tree

    def compose(self, events: Iterator[yaml.Event]) -> yaml.Node | None:
        """The tree of the one document in the file; None where it is empty."""
        root = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self._at(event, "expected one document, got a second (`---`): take it out")
                root = self._node(next(events), events, 0)
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> yaml.Node:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:  # none of that name, or one that is not yet complete
                raise self._at(
                    event, f"expected an anchor written before, got `*{event.anchor}`: write it out"
                )
            return self.anchors[event.anchor]
        if depth > DEPTH:
            raise self._at(event, f"expected at most {DEPTH} levels, got more: take brackets or indents out")
        self.left += 1
        marks = event.start_mark, event.end_mark
        if isinstance(event, yaml.ScalarEvent):
            tag = self._tag(event, yaml.ScalarNode)
            node: yaml.Node = yaml.ScalarNode(tag, event.value, *marks, style=event.style or None)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = yaml.SequenceNode(self._tag(event, yaml.SequenceNode), [], *marks)
            while not isinstance(inner := next(events), yaml.SequenceEndEvent):
                node.value.append(self._node(inner, events, depth + 1))
        else:
            node = yaml.MappingNode(self._tag(event, yaml.MappingNode), [], *marks)
            while not isinstance(inner := next(events), yaml.MappingEndEvent):
                key = self._node(inner, events, depth + 1)
                node.value.append((key, self._node(next(events), events, depth + 1)))
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _tag(self, event: Any, kind: type[yaml.Node]) -> str:
        tag = event.tag
        if tag in (None, "!"):
            return self.resolver.resolve(kind, getattr(event, "value", None), event.implicit)
        if tag not in (_SCALARS if kind is yaml.ScalarNode else _COLLECTIONS):
            raise self._at(event, f"expected no tags, got `{tag.replace(_TAG, '!!')}`: take it out")
        return tag

    def _at(self, place: Any, message: str) -> UserError:
        return UserError(f"{self.name}: line {place.start_mark.line + 1}: {message}")

    # The values

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        """The value of a node that stands at `loc`."""
        self.left -= 1
        if self.left < 0:
            raise self._at(node, f"expected aliases to add at most {UNFOLDED} values, got more: write less")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        return self._mapping(node, loc)

    def _scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        plain = node.style is None
        if plain:
            self.written[loc] = (node.value, node.start_mark.line + 1)
        if node.tag == _STR:
            return node.value
        try:
            value = self.constructor.yaml_constructors[node.tag](self.constructor, node)
        except (KeyError, ValueError, IndexError, AttributeError, OverflowError):
            # `!!int ""`, `!!bool x`, a 30th of February, thousands of digits: each fails in its own way
            kind = node.tag.removeprefix(_TAG).replace("timestamp", "date")
            raise self._refused(node, loc, f"a value of the kind `{kind}`", "quote it") from None
        if node.tag == _INT and not -(2**63) <= value < 2**63:
            raise self._refused(node, loc, "a number below 2^63", "write a smaller one")
        if plain and node.tag == _INT and _MISREAD.search(node.value):
            remedy = "write it without leading zeros or colons"
            raise self._refused(node, loc, "a plain decimal number", remedy, f" (YAML reads it as {value})")
        return value

    def _refused(self, node: yaml.Node, loc: Loc, rule: str, remedy: str, note: str = "") -> UserError:
        place, line = f"{self.name}: {show(loc)}", node.start_mark.line + 1
        return UserError(f"{place}: expected {rule}, got `{node.value}`{note}, line {line}: {remedy}")

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        place = f"{self.name}: {show(loc) + ': ' if loc else ''}"
        merged: dict[str, Any] = {}
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                merged |= self._merge(value, loc)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != _STR:
                got = f"`{key.value}`" if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise UserError(
                    f"{place}expected a text as key, got {got} (no text to YAML), line {line}: quote it"
                )
            if key.value in lines:
                raise UserError(
                    f"{place}key `{key.value}` stands twice, on lines {lines[key.value]} and {line}: keep one"
                )
            lines[key.value] = line
            values[key.value] = self.value(value, (*loc, key.value))
        return {**merged, **values}

    def _merge(self, node: yaml.Node, loc: Loc) -> dict[str, Any]:
        """What ``<<`` brings in: a mapping, or several of which the first to name a key has it."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for one in reversed(nodes):
            if not isinstance(one, yaml.MappingNode):
                raise self._at(one, "expected `key: value` lines to merge by `<<`, got none: write it so")
            merged |= self.value(one, loc)
        return merged


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return repr(value)
    return {int: "a number", float: "a number"}.get(type(value), f"a {type(value).__name__}")
