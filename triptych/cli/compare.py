"""Compare two or more runs on the same prompts: ``triptych compare RUN RUN [RUN ...]``.

Headline gaps and the presence of objects are compared. Writes ``differences.csv`` (every quantity, every two runs:
difference, interval, test), ``values.csv`` (every quantity of every run), a figure of the gaps for each contrast as PDF
and PNG, and ``comparison.html`` with a sentence on each gap and one on the objects.
The statistics: `analysis.studies.compare.differences`.
"""

from __future__ import annotations

import argparse

from probes import command_line
from probes.errors import UserError


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych compare``."""
    main = command_line.Parser(
        prog="triptych compare",
        description="Compare two or more runs on the same prompts, paired by prompt: differences of the headline gaps"
        " and of the presence of objects with intervals and tests, as tables, figures and a page.",
        examples={"triptych compare runs/first-light runs/null": "do the gaps of two models differ?"},
    )
    main.add_run("directories of measured runs, two or more; every two are compared", "runs", nargs="+")
    main.add_out("comparison")
    main.add_inference(permutations=True)
    main.add_seed("resamples and sign flips")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Compare runs, and write tables, figures and a page; UserError for fewer than two runs."""
    from analysis.studies.compare.summary import PAGE, compared
    from probes.runs.missing import open_run

    options = vars(arguments)
    paths, out = options.pop("runs"), options.pop("out")
    options.pop("stages")
    if len(paths) < 2:
        raise UserError(f"runs: expected two or more run directories, got {len(paths)}: name another")
    command_line.writable(out, folder=True)
    comparison = compared([*map(open_run, paths)], **options)
    comparison.write(out)
    print(repr(comparison))
    print(f"tables and figures: {out}; page: {out / PAGE}")
