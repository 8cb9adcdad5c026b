"""Reading YAML without its traps: duplicate keys, keys that are no text, octal and sexagesimal numbers.

A YAML 1.1 reader turns ``no`` into ``False``, ``010`` into 8 and ``1:30`` into 90, and lets the second of
two equal keys win in silence. Numbers of that kind and equal keys are refused here; for the rest the text
that stood in the file is kept beside its value, so that an error can show what was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from probes.errors import UserError

_INT, _STR, _MERGE = "tag:yaml.org,2002:int", "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
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
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def read_yaml(path: str | Path) -> YamlSource:
    """Read a YAML file, refusing what a reader of the file would not expect.

    Raises
    ------
    UserError
        The file cannot be read or parsed, holds a key twice, a key that is no text, or a number in octal
        or sexagesimal notation.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
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
    return parse_yaml(text, path.name)


def parse_yaml(text: str, name: str) -> YamlSource:
    """Parse YAML text; `name` stands for the file in errors (see :func:`read_yaml`)."""
    loader = yaml.SafeLoader(text)
    written: dict[Loc, tuple[str, int]] = {}
    try:
        node = loader.get_single_node()
        if node is not None:
            _check(node, (), name, written, set())
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise UserError(_syntax(error, text, name)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{name}: not valid YAML ({error}): mend that place") from None
    finally:
        loader.dispose()
    return YamlSource(name=name, text=text, data=data, written=written)


def _syntax(error: yaml.MarkedYAMLError, text: str, name: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = text.splitlines()[mark.line].strip() if mark and mark.line < len(text.splitlines()) else ""
    place = f"{name}: line {mark.line + 1}" if mark else name
    remedy = "mend that line"
    if re.match(r"(-\s*|[\w ]+:\s*)?\{", line):
        remedy = "put a text that begins with { in quotes"
    return f"{place}: not valid YAML ({error.problem or error.context}), found `{line}`: {remedy}"


def _check(node: yaml.Node, loc: Loc, name: str, written: dict, seen: set[int]) -> None:
    if id(node) in seen:  # an alias: checked where it was anchored
        return
    seen.add(id(node))
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        if node.style is None:
            written[loc] = (node.value, line)
            if node.tag == _INT and re.search(r"^[-+]?0[0-7_]+$|:", node.value):
                value = yaml.safe_load(node.value)
                raise UserError(
                    f"{name}: {show(loc)}: expected a plain decimal number, got `{node.value}`"
                    f" (YAML reads it as {value}), line {line}: write it without leading zeros or colons"
                )
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _check(item, (*loc, index), name, written, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            place = f"{name}: {show(loc) + ': ' if loc else ''}"
            if key.tag == _MERGE:
                _check(value, loc, name, written, seen)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != _STR:
                raw = getattr(key, "value", "")
                found = f"`{raw}`" if isinstance(raw, str) else "a list or mapping"
                raise UserError(
                    f"{place}expected a text as key, got {found} (no text to YAML),"
                    f" line {key.start_mark.line + 1}: quote it"
                )
            if key.value in lines:
                raise UserError(
                    f"{place}key `{key.value}` stands twice, on lines {lines[key.value]} and"
                    f" {key.start_mark.line + 1}: keep one"
                )
            lines[key.value] = key.start_mark.line + 1
            _check(value, (*loc, key.value), name, written, seen)


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return repr(value)
    return {int: "a number", float: "a number"}.get(type(value), f"a {type(value).__name__}")
