"""The arguments of ``triptych audit gep``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.methods.gep.sources import ORDER
from probes import command_line


def _add(which: Any, name: str, text: str, examples: Mapping[str, str]) -> command_line.Parser:
    """A command of the command."""
    return which.add_parser(name, help=text, description=f"{text.capitalize()}.", examples=examples)


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych audit gep",
        description="Audits of attributes by gender (GEP, Zhang et al. 2023).",
        examples={"triptych audit gep compare runs/gep runs/gep-other": "two audited models side by side"},
    )
    which = main.add_subparsers(dest="command", required=True)
    look = _add(
        which,
        "images",
        "audit a folder of images of another program",
        {
            "triptych audit gep images pictures --weights toyworld": "pictures of the paper's prompts, by their names"
        },
    )
    look.add_argument(
        "folder",
        type=Path,
        nargs="+",
        help="images, and a table with their prompts or names that hold them; several are compared",
    )
    look.add_argument(
        "--config", type=Path, help="YAML with indicators, prompts, gep (default: the paper's prompts)"
    )
    look.add_argument(
        "--names", help="what file names mean, such as {prompt}_{number} (default: this, or a table)"
    )
    look.add_argument("--model", help="what the report calls the model (default: the folder)")
    look.add_argument(
        "--clip", help="CLIP that reads the images, one of observe.features (default: see gep.clip)"
    )
    look.add_argument(
        "--weights",
        help="weights of CLIP: a file, a folder, a hub id, or toyworld (default: as --config says)",
    )
    look.add_out("runs/gep", "directory of the run")
    look.add_argument("--overwrite", action="store_true", help="replace the run that is in the folder")
    beside = _add(
        which,
        "compare",
        "show several runs side by side",
        {"triptych audit gep compare runs/gep runs/gep-other": "vectors, scores and a leaderboard, in gep/"},
    )
    beside.add_run("directories of measured runs", "runs", nargs="+")
    beside.add_argument(
        "--source", choices=ORDER, help="who read the images (default: the surest that read all)"
    )
    beside.add_out("gep")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.gep import command  # not before: --help is quick

    command.work(options)
