"""Recompute what three papers print: ``python -m lab.papers.reproduce > docs/validation/reproduction.md``.

Needs no model and no image; the tables are in `lab/papers/reference`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lab.papers import dalleval, gep, wu
from lab.templates import render
from probes import command_line

PAPERS = {"gep": gep.paper, "dalleval": dalleval.paper, "wu": wu.paper}


def page() -> str:
    """Return the page in Markdown."""
    return render("reproduction", papers={name: paper() for name, paper in PAPERS.items()})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.papers.reproduce",
        description="Recompute what three papers print, from their own tables, and print the page on it.",
    )
    return command_line.run(lambda _: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
