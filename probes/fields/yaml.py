"""Reading YAML without its traps: duplicate keys, keys that are no text, octal and sexagesimal numbers, bombs.

A YAML 1.1 reader turns ``no`` into ``False``, ``010`` into 8 and ``1:30`` into 90, lets the second of two equal
keys win in silence, and unfolds a few hundred bytes of aliases into more values than fit a machine. Numbers of that
kind, equal keys, tags, numbers beyond 64 bits, nesting and aliases beyond what a configuration needs are refused
here; for the rest the text that stood in the file is kept beside its value, so that an error can show what was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from probes.errors import UserError
from probes.paths import require_regular

DEPTH = 20  # lists and mappings within each other; the schema has five
BYTES = 4 << 20  # of a file
UNFOLDED = 10_000  # values that aliases and merges may add to those written

_TOO_DEEP = f"expected at most {DEPTH} levels, got more: take brackets or indents out"
_PROBLEMS = {  # of PyYAML and libyaml, in our words
    "but found another document": "expected one document, got a second (`---`): take it out",
    "exceeded maximum nesting depth": _TOO_DEEP,
}
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
        """Return what YAML made of a bare word: `` (YAML reads a bare `no` as False)``, or nothing."""
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


def yaml_text(data: Any) -> str:
    """Return plain data as YAML, keys in their order."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def read_yaml(path: str | Path) -> YamlSource:
    """Read a YAML file, refusing what a reader of the file would not expect."""
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
    try:
        reader = _Reader(text, name)
        node = reader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise UserError(_syntax(error, text, name)) from None
    except yaml.YAMLError as error:
        raise UserError(f"{name}: not valid YAML ({error}): mend that place") from None
    data = None if node is None else reader.value(node, ())
    return YamlSource(name=name, text=text, data=data, written=reader.written)


def _syntax(error: yaml.MarkedYAMLError, text: str, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = text.splitlines()[mark.line].strip() if mark and mark.line < len(text.splitlines()) else ""
    place = f"{name}: line {mark.line + 1}" if mark else name
    if error.problem in _PROBLEMS:
        return f"{place}: {_PROBLEMS[error.problem]}"
    remedy = "mend that line"
    if re.match(r"(-\s*|[\w ]+:\s*)?\{", line):
        remedy = "put a text that begins with { in quotes"
    elif re.search(r"[\[,]\s*[^\"',\[\]{}]*\{person\}", line):
        remedy = "put texts with {person} between [ and ] in quotes, or write one a line after `- `"
    return f"{place}: not valid YAML ({error.problem or error.context}), found `{line[:100]}`: {remedy}"


class _Reader(yaml.composer.Composer, yaml.resolver.Resolver):
    """From YAML's events to values: a tree of what is written, then the values that it stands for."""

    def __init__(self, text: str, name: str):
        yaml.composer.Composer.__init__(self)
        yaml.resolver.Resolver.__init__(self)
        parser = _Parser(text)
        self.check_event, self.peek_event = parser.check_event, parser.peek_event
        self.get_event = parser.get_event
        self.constructor = yaml.constructor.SafeConstructor()
        self.name = name
        self.written: dict[Loc, tuple[str, int]] = {}
        self.depth = 0
        self.left = UNFOLDED  # values that may still be made

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Return the next node; PyYAML's, without tags, levels beyond `DEPTH` and aliases of what is not complete."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            if getattr(self.anchors.get(event.anchor), "end_mark", None) is None:
                raise self._at(
                    event, f"expected an anchor written before, got `*{event.anchor}`: write it out"
                )
            return super().compose_node(parent, index)
        if self.depth > DEPTH:
            raise self._at(event, _TOO_DEEP)
        known = _SCALARS if isinstance(event, yaml.ScalarEvent) else _COLLECTIONS
        if event.tag not in (None, "!", *known):
            raise self._at(event, f"expected no tags, got `{event.tag.replace(_TAG, '!!')}`: take it out")
        self.anchors.pop(event.anchor, None)  # a name may be given anew
        self.left += 1
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _at(self, place: Any, message: str) -> UserError:
        return UserError(f"{self.name}: line {place.start_mark.line + 1}: {message}")

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
        plain = not node.style
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
        """Return what ``<<`` brings in: a mapping, or several of which the first to name a key has it."""
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
