"""The arguments of ``triptych mitigate``."""

from __future__ import annotations

import argparse

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych mitigate",
        description="Compare a model before and after a mitigation, on the same prompts and the same noise.",
        examples={"triptych mitigate runs/before runs/after": "writes tables and a figure into mitigation/"},
    )
    main.add_run("run of the model before the mitigation", "before")
    main.add_run("run of the mitigated model, on the same prompts and seeds", "after")
    main.add_run(
        "further runs of either model, on other seeds (default: none)", "--also", nargs="+", default=[]
    )
    main.add_out("mitigation")
    main.add_argument(
        "--margin",
        type=command_line.probability,
        default=0.05,
        metavar="P",
        help="difference below which the tests of equivalence take two models for equal",
    )
    main.add_inference(permutations=True)
    main.add_seed("resamples and sign flips")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.mitigation import command  # not before: --help is quick

    command.work(options)
