"""The arguments of ``triptych decode``."""

from __future__ import annotations

import argparse

from analysis.methods.decoding import FOLDS, NOT_USED, SITES, STRENGTH
from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych decode",
        description="Fit linear probes to a model's activations: what can be read where, and from which step on.",
        examples={
            "triptych decode triplets.yaml --limit 12": "generates twelve prompts, and fits probes to all sites"
        },
        epilog=NOT_USED,
    )
    add = main.add_argument
    main.add_run("triplets.yaml, or the directory of a run, for its model, prompts and words", "target")
    main.add_out("decoding", "folder to write to; images and activations go into run/ there")
    add("--seeds", nargs="+", type=command_line.seed, default=[], help="seeds (default: those of the target)")
    add("--limit", type=command_line.count, help="only the first N prompts (default: all)")
    sites = f"addresses or globs (default: {' '.join(SITES)}; of a run that holds activations all of these)"
    add("--sites", nargs="+", default=[], metavar="SITE", help=sites)
    folds, positive = command_line.whole_number(2, 100), command_line.number(0, closed=False)
    add("--folds", type=folds, default=FOLDS, help="folds of the cross-validation, over prompts")
    strength = "inverse strength of regularisation, C of the logistic regression"
    add("--strength", type=positive, default=STRENGTH, help=strength)
    main.add_inference()
    main.add_seed("folds, controls and resamples")
    add("--quiet", action="store_true", help="no progress bars")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.decoding import command  # not before: --help is quick

    command.work(options)
