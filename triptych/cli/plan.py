"""``triptych plan triplets.yaml``: what a run would generate and what it would take; nothing is written."""

from __future__ import annotations

import argparse

from probes import command_line
from triptych.cli.run import config_overrides, staged_parser


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych plan``."""
    main = staged_parser(
        "plan",
        "Print what a run would generate, what it compares, and the disk it takes. Nothing is written.",
        {"triptych plan triplets.yaml --seeds 0 1 2": "what three seeds would take"},
        "triplets.yaml, or the folder of a run",
    )
    main.add_argument("--samples", action="store_true", help="list every image that is planned")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Print what a run would generate, and what it would take."""
    from triptych.request import read_request  # not before: --help is quick
    from triptych.stages import plan_request

    request = read_request(arguments.config, config_overrides(arguments), dry=True)
    _, lines = plan_request(request, samples=arguments.samples)
    print(*lines, sep="\n")
