"""The page on every command of ``triptych``: ``python -m lab.pages.command_line > docs/reference/command_line.md``."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from lab.templates import render
from triptych.cli.main import GROUPS


@dataclass(frozen=True)
class Argument:
    """An argument of a command with its value, what the help says of it, and its default."""

    name: str
    value: str
    text: str
    default: str


@dataclass(frozen=True)
class CommandHelp:
    """A section of the page: a command, what it does, its usage and arguments, what the help says below, its level."""

    name: str
    text: str
    usage: str
    arguments: tuple[Argument, ...]
    more: str
    examples: dict[str, str]
    level: int


def page() -> str:
    """Return the whole page in Markdown."""
    groups = {
        title: [section for row in rows for section in _sections(_parser(row.module, row.name))]
        for title, rows in GROUPS.items()
    }
    arguments = [one for rows in groups.values() for command in rows for one in command.arguments]
    shared = [one for one, count in Counter(arguments).items() if count > 1 and one.name.startswith("-")]
    return render("command_line", groups=groups, shared=shared)


def _parser(module: str, name: str) -> argparse.ArgumentParser:
    parser = import_module(module).parser()
    parser.prog = f"triptych {name}"
    return parser


def _sections(parser: argparse.ArgumentParser, level: int = 3) -> Iterator[CommandHelp]:
    further = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    own = [
        one
        for one in parser._actions
        if one not in further and not isinstance(one, argparse._HelpAction) and one.help != argparse.SUPPRESS
    ]
    yield CommandHelp(
        parser.prog,
        _line(parser.description or ""),
        " ".join([parser.prog, *_required(own), *(["COMMAND ..."] if further else []), "[options]"]),
        tuple(_argument(one) for one in own),
        re.split(r"^examples?:$", parser.epilog or "", maxsplit=1, flags=re.M)[0].strip(),
        getattr(parser, "examples", {}),
        level,
    )
    for action in further:
        for name, one in action.choices.items():
            one.prog = f"{parser.prog} {name}"
            yield from _sections(one, level + 1)


def _required(actions: list[argparse.Action]) -> Iterator[str]:
    for one in actions:
        if not one.option_strings:
            text = _value(one) + (" ..." if one.nargs in ("+", "*") else "")
            yield text if one.required else f"[{text}]"
        elif one.required:
            yield f"{one.option_strings[-1]} {_value(one)}"


def _argument(action: argparse.Action) -> Argument:
    value, default = _value(action) if action.nargs != 0 else "", action.default
    if not action.option_strings:
        value = ""
    text = _line(action.help or "")
    if default is None or default is False or default in ([], argparse.SUPPRESS) or "default" in text:
        default = ""
    default = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
    return Argument(", ".join(action.option_strings) or _value(action), value, text, default)


def _value(action: argparse.Action) -> str:
    if action.metavar:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return ", ".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _line(text: str) -> str:
    """Return a text in one line, a percent sign as it is shown."""
    return " ".join(text.replace("%%", "%").replace("``", "`").split())


if __name__ == "__main__":
    print(page(), end="")
