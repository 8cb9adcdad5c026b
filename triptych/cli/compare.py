"""Two or more runs on the same prompts, held against each other: ``triptych compare RUN RUN [RUN ...]``.

Writes ``differences.csv`` (every quantity, every two runs: difference, interval, test), ``values.csv`` (every quantity
of every run) and a forest plot a contrast as PDF and PNG. The statistics: `analysis.studies.compare.differences`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from analysis.studies.compare.summary import models_said, named, summary, write
from analysis.studies.opening import opened
from probes import command_line
from probes.errors import UserError


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="triptych compare",
        description="Hold two or more runs on the same prompts against each other, paired by prompt.",
    )
    add = main.add_argument
    add(
        "runs",
        nargs="+",
        type=command_line.run_directory,
        help="measured run directories; the others are held against the first",
    )
    add("--out", type=Path, default=Path("comparison"), help="folder to write to")
    add("--every", action="store_true", help="every site and step, not only the headline")
    add("--level", type=command_line.probability, default=0.95, help="of the intervals")
    add("--resamples", type=command_line.count, default=2000)
    add("--permutations", type=command_line.count, default=10000)
    add("--seed", type=command_line.seed, default=0, help="of resamples and sign flips")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    paths, out = options.pop("runs"), options.pop("out")
    options.pop("stages")
    if len(paths) < 2:
        raise UserError(f"runs: expected two or more run directories, got {len(paths)}: name another")
    command_line.writable(out, folder=True)
    runs = [opened(path) for path in paths]
    differences = write(runs, out, **options)
    print(
        "\n".join(
            [*models_said(runs, named(runs)), summary(differences, runs[0].config.measure.text_readout)]
        )
    )
    print(f"tables and figures: {out}")
