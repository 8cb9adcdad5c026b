"""Recompute what three papers print: ``python -m lab.papers.reproduce [--only PAPER] [--out PAGE]``.

Prints the page, or writes it. Needs no model and no image; the tables are part of the package
(`lab/papers/reference`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.papers.page import PAPERS, page
from probes import command_line
from probes.runs.parts import write_bytes


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.papers.reproduce",
        description="Recompute what three papers print, from their own tables, and show paper beside recomputed.",
    )
    main.add_argument("--only", choices=tuple(PAPERS), help="one paper instead of all three")
    main.add_argument(
        "--out",
        type=Path,
        help="page to write, such as docs/validation/reproduction.md; printed if not given",
    )
    main.add_argument(
        "--data",
        type=command_line.existing_folder,
        help="folder of the reference tables instead of the package's own",
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if options.out:
        command_line.writable(options.out)
    text = page([options.only] if options.only else tuple(PAPERS), options.data)
    if options.out:
        write_bytes(options.out, text.encode())
    print(options.out or text, end="\n" if options.out else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
