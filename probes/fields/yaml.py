"""YAML with the places of its values, without its traps: duplicate keys, keys that are no text, odd numbers, bombs.

PyYAML composes the nodes with their lines. A YAML 1.1 reader turns ``no`` into ``False``, ``010`` into 8 and ``1:30``
into 90, lets the second of two equal keys win in silence, and unfolds a few hundred bytes of aliases into more values
than fit a machine: that is refused here, and bare words are kept beside their values, for errors. Every error is one
line: place, rule, value, remedy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from probes.errors import UserError
from probes.fields.types import HINT, KeyPath, Section, first_fault
from probes.paths import require_regular

DEPTH = 20  # lists and mappings within each other; the schema has five
BYTES = 4 << 20  # of a file
UNFOLDED = 10_000  # values that aliases and merges may add to those written

_TOO_DEEP = f"expected at most {DEPTH} levels, got more: take brackets or indents out"
_PROBLEMS = {  # of PyYAML and libyaml, in our words
    "but found another document": "expected one document, got a second (`---`): take it out",
    "exceeded maximum nesting depth": _TOO_DEEP,
    "expected a mapping": "expected `key: value` lines to merge by `<<`, got none: write it so",
    "second occurrence": "expected each anchor once, got another of the same name: rename it",
}
_TAG = "tag:yaml.org,2002:"
_INT, _STR, _MERGE = f"{_TAG}int", f"{_TAG}str", f"{_TAG}merge"
_KINDS = ("null", "bool", "int", "float", "timestamp", "str", "merge", "value", "seq", "map")
# what YAML 1.1 allows in a file: neither control characters nor halves of a surrogate pair
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MISREAD = re.compile(r"^[-+]?0[0-7_]+$|:")  # octal and sexagesimal numbers
_FIELD = re.compile(r"([a-z]+(?:\.[a-z_]+|\[\d+\])*): ")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's reads ten times as fast


Options = Mapping[
    tuple[str, ...], tuple[str, Any]
]  # of the command line: by key path, the flag and its value


@dataclass(frozen=True)
class YamlSource:
    """A parsed YAML file: name, text, data, and PyYAML's root node (None if it is empty or not parsed)."""

    name: str
    text: str
    data: Any
    root: yaml.Node | None = None

    def bare_word_note(self, loc: KeyPath) -> str:
        """Return a note for an error if YAML read the unquoted word at a key path as another type; else empty."""
        node = self.root
        for step in loc:
            if isinstance(node, yaml.MappingNode):
                node = next((entry for key, entry in reversed(node.value) if key.value == step), None)
            else:
                known = isinstance(node, yaml.SequenceNode) and isinstance(step, int)
                node = node.value[step] if known and step < len(node.value) else None
        if not isinstance(node, yaml.ScalarNode) or node.style:
            return ""
        value = yaml.constructor.SafeConstructor().construct_object(node)
        if isinstance(value, str) or node.value == repr(value):
            return ""
        if not node.value:
            return " (nothing is written there)"
        kind = type(value).__name__
        kinds = {"NoneType": "nothing", "bool": value, "int": "a number", "float": "a number"}
        return f" (YAML reads a bare `{node.value}` as {kinds.get(kind, f'a {kind}')})"


def error_line(error: ValidationError, schema: type[Section], source: YamlSource, options: Options) -> str:
    """Return a line for users on the first validation error, with the file or command-line flag of the value."""
    loc, text, others = first_fault(error, schema)
    option = _flag_at(loc, options)
    place = option or f"{source.name}: {path_text(loc)}"
    text = text.replace(HINT, "" if option else source.bare_word_note(loc))
    return f"{place}: {text}{f' ({others} more like this)' if others else ''}"


@contextlib.contextmanager
def locate_errors(schema: type[BaseModel], source: YamlSource, options: Options) -> Iterator[None]:
    """Context manager: prefix a `UserError` that begins with a field of `schema` by the file or flag that set it."""
    try:
        yield
    except UserError as error:
        field = _FIELD.match(str(error))
        loc = tuple(re.split(r"[.\[]", field[1])) if field else ()
        if field is None or loc[0] not in schema.model_fields or str(error).startswith(f"{source.name}: "):
            raise
        place = _flag_at(loc, options) or f"{source.name}: {field[1]}"
        raise UserError(f"{place}: {str(error)[field.end() :]}") from None


def _flag_at(loc: tuple, options: Options) -> str | None:
    """Return the command-line flag that set the value at a key path; None if no flag did."""
    return next((flag for at, (flag, _) in options.items() if loc[: len(at)] == at), None)


def path_text(loc: KeyPath) -> str:
    """Return a key path in a configuration as users write it.

    >>> path_text(("prompts", 3, "neutral"))
    'prompts[3].neutral'
    """
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in loc).removeprefix(".")


def yaml_text(data: Any) -> str:
    """Return plain data as YAML text, keys in their order."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def read_yaml(path: str | Path) -> YamlSource:
    """Return a parsed YAML file; raises `UserError` if unreadable, too large, or ambiguous as by duplicate keys."""
    path = require_regular(Path(path))
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES + 1)
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except IsADirectoryError:
        wrong = "expected a YAML file, got a folder: name the file"
    except FileNotFoundError:
        wrong = "expected a YAML file, found none: check the path"
    except UnicodeDecodeError as error:
        wrong = f"expected UTF-8 text, got byte {error.start} undecodable: save as UTF-8"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror}): check its permissions"
    except ValueError as error:  # a NUL, a lone surrogate
        wrong = f"expected the path of a file, got one with {error}: check it"
    else:
        if len(data) <= BYTES:
            return parse_yaml(text, path.name)
        wrong = f"expected at most {BYTES >> 20} MiB, got more: write less, or several runs"
    raise UserError(f"{path}: {wrong}")


def parse_yaml(text: str, name: str) -> YamlSource:
    """Return parsed YAML text; raises a `UserError` that begins with `name` for what `read_yaml` refuses."""
    if forbidden := _FORBIDDEN.search(text):
        line = text.count("\n", 0, forbidden.start()) + 1
        raise UserError(
            f"{name}: line {line}: expected text without control characters, got {forbidden[0]!r}: take it out"
        )
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return YamlSource(name, text, None)
        _check_nodes(root, text, name, loader)
        return YamlSource(name, text, loader.construct_document(root), root)
    except RecursionError:
        raise UserError(f"{name}: {_TOO_DEEP}") from None
    except yaml.MarkedYAMLError as error:
        raise UserError(_syntax_error_text(error, text, name)) from None
    except yaml.YAMLError as error:
        raise UserError(f"{name}: not valid YAML ({error}): mend that place") from None


def _syntax_error_text(error: yaml.MarkedYAMLError, text: str, name: str) -> str:
    """Return the one-line message of a YAML syntax error: file, line, problem, remedy."""
    mark, lines = error.problem_mark or error.context_mark, text.splitlines()
    line = lines[mark.line].strip() if mark and mark.line < len(lines) else ""
    place = f"{name}: line {mark.line + 1}" if mark else name
    problem = error.problem or error.context or ""
    if known := next((text for start, text in _PROBLEMS.items() if problem.startswith(start)), None):
        return f"{place}: {known}"
    if mark and problem.startswith("found undefined alias"):
        return f"{place}: {_undefined_alias_text(text, mark)}"
    remedy = "mend that line"
    if re.match(r"(-\s*|[\w ]+:\s*)?\{", line):
        remedy = "put a text that begins with { in quotes"
    elif re.search(r"[\[,]\s*[^\"',\[\]{}]*\{person\}", line):
        remedy = "put texts with {person} between [ and ] in quotes, or write one a line after `- `"
    return f"{place}: not valid YAML ({problem}), found `{line[:100]}`: {remedy}"


def _undefined_alias_text(text: str, mark: yaml.Mark) -> str:
    """Return the message for an alias without an earlier anchor; `mark` is at the alias or at the anchor around it."""
    anchor = re.match(r"[&*]?([^\s,\[\]{}]*)", text[mark.index :])[1].rstrip(":")  # type: ignore[index]
    return f"expected an anchor written before, got `*{anchor}`: write it out"


def _check_nodes(root: yaml.Node, text: str, name: str, loader: yaml.SafeLoader) -> None:
    """Raise `UserError` for tags, deep nesting, too many aliases, misread scalars, and repeated or non-text keys."""
    nodes: list[tuple[yaml.Node, KeyPath, tuple]] = [
        (root, (), ())
    ]  # each with its place, and the nodes that it is in
    seen: set[yaml.Node] = set()
    visits = 0
    while nodes:
        node, loc, within = nodes.pop()
        seen.add(node)
        visits += 1
        line, wrong = node.start_mark.line + 1, ""
        if node in within:
            wrong = _undefined_alias_text(text, node.start_mark)
        elif len(loc) > DEPTH:
            wrong = _TOO_DEEP
        elif node.tag.removeprefix(_TAG) not in _KINDS:
            wrong = f"expected no tags, got `{node.tag.replace(_TAG, '!!')}`: take it out"
        elif visits - len(seen) > UNFOLDED:
            wrong = f"expected aliases to add at most {UNFOLDED} values, got more: write less"
        if wrong:
            raise UserError(f"{name}: line {line}: {wrong}")
        if isinstance(node, yaml.ScalarNode):
            if refused := _scalar_error(node, loader):
                rule, note, remedy = refused
                at = f"{name}: {path_text(loc)}: expected {rule}, got `{node.value}`{note}"
                raise UserError(f"{at}, line {line}: {remedy}")
            continue
        entries: list[tuple[yaml.Node, KeyPath, tuple]] = []
        lines: dict[str, int] = {}
        if isinstance(node, yaml.SequenceNode):
            for index, entry in enumerate(node.value):
                entries.append((entry, (*loc, index), (*within, node)))
        else:
            for key, entry in node.value:
                line, merge = key.start_mark.line + 1, key.tag == _MERGE
                if key.tag not in (_STR, _MERGE):
                    got = f"`{key.value}`" if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                    wrong = f"expected a text as key, got {got} (no text to YAML), line {line}: quote it"
                elif not merge and key.value in lines:
                    wrong = (
                        f"key `{key.value}` stands twice, on lines {lines[key.value]} and {line}: keep one"
                    )
                if wrong:
                    raise UserError(f"{name}: {path_text(loc)}{': ' if loc else ''}{wrong}")
                lines[key.value] = line
                entries.append((entry, loc if merge else (*loc, key.value), (*within, node)))
        nodes += reversed(entries)


def _scalar_error(node: yaml.ScalarNode, loader: yaml.SafeLoader) -> tuple[str, str, str] | None:
    """Return (expected, note, remedy) for a scalar that YAML cannot convert or misreads as a number; else None."""
    try:
        value = loader.construct_object(node)
    except (yaml.YAMLError, KeyError, ValueError, IndexError, AttributeError, OverflowError):
        # `!!int ""`, `!!bool x`, a 30th of February, thousands of digits: each fails in its own way
        kind = node.tag.removeprefix(_TAG).replace("timestamp", "date")
        return f"a value of the kind `{kind}`", "", "quote it"
    if node.tag == _INT and not -(2**63) <= value < 2**63:
        return "a number below 2^63", "", "write a smaller one"
    if node.tag == _INT and not node.style and _MISREAD.search(node.value):
        note = f" (YAML reads it as {value})"
        return "a plain decimal number", note, "write it without leading zeros or colons"
    return None
