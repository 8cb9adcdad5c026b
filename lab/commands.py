"""Command lines from signatures: an option for each parameter of a function, or field of a dataclass.

A parameter without a default is an argument of its own, one with a default an option of its name. Its annotation says
what it takes: numbers are not negative, a list is of one or several, ``Annotated`` adds choices (a tuple), a function
that converts the text, and a help.
"""

from __future__ import annotations

import argparse
import inspect
import json
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch

from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import WEIGHTS

_TYPES = {int: command_line.whole_number(0, 10**9), float: command_line.number(0), Path: Path, str: str}


def add_arguments(parser: command_line.Parser, function: Callable[..., object]) -> None:
    """Add an argument for each parameter of a function."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, *more = get_args(hints[name]) if hasattr(hints[name], "__metadata__") else [hints[name]]
        if get_origin(kind) in (Union, types.UnionType):  # one that may be left out
            kind = next(one for one in get_args(kind) if one is not type(None))
        options: dict[str, Any] = {"help": next((one for one in more if isinstance(one, str)), "")}
        options["choices"] = next((one for one in more if isinstance(one, tuple)), None)
        if get_origin(kind) in (list, Sequence):
            kind, options["nargs"] = get_args(kind)[0], "+"
        required = parameter.default is inspect.Parameter.empty
        default = None if required else parameter.default
        if kind is bool:
            del options["choices"]
            options["action"] = "store_true"
        else:
            usual = command_line.whole_number(1, 10**9) if kind is int and default else _TYPES[kind]
            options |= {"type": next(filter(callable, more), usual), "default": default}
        if required:
            del options["default"]
        parser.add_argument(name if required else f"--{name.replace('_', '-')}", **options)


def measure(function: Callable[..., Iterable[tuple[str, dict]]], prog: str, argv: Sequence[str]) -> int:
    """Measure what a command line says, and write each result as ``NAME/quality.json`` beside the weights.

    ``function`` gives pairs of a folder among those of the weights and the figures.
    """

    def work(options: argparse.Namespace) -> None:
        chosen = vars(options)
        out, threads = chosen.pop("out") or chosen.get("weights", WEIGHTS), chosen.pop("threads")
        command_line.writable(out, folder=True)
        torch.set_num_threads(threads)
        for folder, figures in function(**chosen):
            path = out / folder / "quality.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, (json.dumps(figures, indent=1) + "\n").encode())
            print(
                path, {name: value for name, value in figures.items() if not isinstance(value, list | dict)}
            )

    parser = command_line.Parser(prog=prog, description=inspect.getdoc(function))
    add_arguments(parser, function)
    parser.add_argument("--out", type=Path, help="folder of NAME/quality.json (default: beside the weights)")
    parser.add_argument("--threads", type=command_line.threads, default=1)
    return command_line.run(work, parser, argv)
