"""``triptych report RUN``: the report anew, from the tables of a measured run."""

from __future__ import annotations

from probes import command_line
from triptych.cli.run import REPORT, staged_parser, work

__all__ = ["parser", "work"]


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych report``."""
    main = staged_parser(
        "report",
        "Write report.html, the figures and the LaTeX tables of a measured run anew. Nothing is generated or measured,"
        " and no model is loaded.",
        {
            "triptych report runs/first-light": "after an update of triptych, or of what people answered",
            "triptych report runs/first-light --figures pdf,png": "with its figures for a paper",
            "triptych report runs/first-light --gallery all": "with every triplet in its gallery",
        },
        "the folder of a measured run, or its triplets.yaml",
        [REPORT],
    )
    main.add_argument("--quiet", action="store_true", help="no progress bars")
    main.set_defaults(stage="report")
    return main
