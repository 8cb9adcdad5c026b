"""Do human checks stay right where a sheet follows from labels? ``python -m lab.validate.human_checks``.

Without ``--simulations`` only the page is written anew from ``human_checks.json`` beside it.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lab.templates import render
from lab.validate.human_checks.simulation import DIFFERENCES, FIGURES, check_rows
from lab.validate.human_checks.worlds import WORLDS
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the page in Markdown from the rows of `check_rows` of all worlds."""
    worlds = [
        (row, next(r for r in rows if r["world"] == row["world"] and r["asked"] != "all")) for row in rows
    ]
    pairs = [(whole, part) for whole, part in worlds if whole["asked"] == "all"]
    return render("human_checks", pairs=pairs, figures=FIGURES, differences=DIFFERENCES)


def parser() -> command_line.Parser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.human_checks",
        description="Simulate human checks whose second sheet follows from labels, and write the page.",
    )
    add = main.add_argument
    add("--simulations", type=command_line.whole(2, 100_000), help="of a world (default: only the page)")
    add("--processes", type=command_line.count, default=1, help="that simulate (default: %(default)s)")
    main.add_seed("the simulations")
    add("--out", type=Path, default=Path("docs/validation/human_checks.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line says."""
    command_line.writable(options.out)
    stored = options.out.with_suffix(".json")
    if options.simulations:
        simulate = functools.partial(check_rows, simulations=options.simulations, seed=options.seed)
        rows = []
        with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
            for of_world in pool.map(simulate, WORLDS):
                rows += of_world
                print(of_world[0]["world"], file=sys.stderr, flush=True)
                lines = ",\n".join(json.dumps(row) for row in rows)
                write_bytes(stored, f"[\n{lines}\n]\n".encode())
    elif not stored.is_file():
        raise UserError(f"--out: expected results in {stored}, got none: name --simulations")
    write_bytes(options.out, page(json.loads(stored.read_text("utf-8"))).encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
