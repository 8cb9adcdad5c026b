"""Findings of a run that depend on a choice made in measuring: ``triptych sensitivity RUN``.

Each choice is moved over a stated range, everything else as in the run, and every finding is computed anew:

- gaps of the headline metrics: the readout of prompt space, each seed alone and each left out, and the seed of
  resamples and sign flips; and the gap over words with each word left out, the indicators' own among them
  (`analysis.tables.similarities.specifications`);
- presence of objects (part of the images, first less second indicator of a contrast), by dependency group and object:
  the detector's score threshold, whose masks guide (the prompt's nouns or every word), which words refer to humans (the
  paper's six and the run's, or the long list), θ of the word masks, σ and σ for humans; each with the number of
  detections that it puts into another group.

Writes ``tables/sensitivity`` and prints what changes its sign, or whether its interval or test speaks of a difference.
A choice that the run leaves no room for (one seed, no objects) is left out.
"""

from __future__ import annotations

import argparse

from analysis.studies.sensitivity.ranges import LEAST_SCORES, SIGMAS, SIGMAS_HUMAN, THETAS
from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych sensitivity",
        description="Vary every choice made in measuring a run over a range, and say which findings change.",
        examples={"triptych sensitivity runs/first-light": "writes tables/sensitivity of the run"},
    )
    main.add_run("directory of a measured run")
    for flag, values, what in (
        ("--thetas", THETAS, "attention above which a pixel belongs to a word's mask"),
        ("--sigmas", SIGMAS, "shares of an object that a word's mask must cover for the word to guide it"),
        ("--sigmas-human", SIGMAS_HUMAN, "the same shares where both word and object refer to humans"),
        ("--least-scores", LEAST_SCORES, "detector scores below which an object is left out"),
    ):
        main.add_argument(flag, type=command_line.share, nargs="+", default=values, metavar="X", help=what)
    return main


def work(arguments: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from analysis.studies.opening import opened
    from analysis.studies.sensitivity.findings import sensitivity
    from analysis.studies.sensitivity.summary import summary
    from analysis.tables.registry import write

    options = vars(arguments)
    options.pop("stages")
    run = opened(options.pop("run"))
    table = sensitivity(run, **options)
    write(run, "sensitivity", table)
    print(summary(table))
    print(f"table: {run.path / 'tables' / 'sensitivity.csv'}")
