"""``triptych init``: a commented ``triplets.yaml`` to start from.

The files stand in ``triptych/cli/starts``; a further one is a row of `STARTS` and a file there.
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from probes import command_line

STARTS = {
    "toyworld": "the model that comes with the package",
    "sd15": "Stable Diffusion 1.5",
    "sdxl": "Stable Diffusion XL",
    "gep": "an audit of attributes (GEP)",
    "dalleval": "an audit of professions (DALL-Eval)",
    "images": "images of another program",
}


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych init",
        description="Write a short, commented triplets.yaml to start from; it says what to change.",
        epilog="what it is for:\n" + "\n".join(f"  {name:<9} {what}" for name, what in STARTS.items()),
        examples={"triptych init --for sd15": "then: triptych plan triplets.yaml"},
    )
    main.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path("triplets.yaml"),
        help="file to write (default: triplets.yaml)",
    )
    main.add_argument(
        "--for",
        dest="start",
        choices=STARTS,
        default="toyworld",
        help="what the run is to be about, see below",
    )
    main.add_argument("--overwrite", action="store_true", help="replace the file if there is one")
    return main


def text(start: str) -> str:
    """Return the configuration to start from, by its name in `STARTS`."""
    return (files("triptych.cli") / "starts" / f"{start}.yaml").read_text(encoding="utf-8")


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from probes.errors import UserError, printable
    from probes.runs.parts import write_bytes

    path = command_line.writable(options.file)
    if path.exists() and not options.overwrite:
        raise UserError(
            f"{path}: expected no file yet, found one: name another, or replace it with --overwrite"
        )
    write_bytes(path, text(options.start).encode())
    print(printable(f"wrote {path}; next: triptych plan {path}"))
