"""``triptych plan triplets.yaml``: what a run would generate and what it would take; nothing is written."""

from __future__ import annotations

import argparse

from probes import command_line
from triptych.options import options, staged_parser


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = staged_parser(
        "plan",
        "Print what a run would generate, what it compares, and the disk it takes. Nothing is written.",
        {"triptych plan triplets.yaml --seeds 0 1 2": "what three seeds would take"},
        "triplets.yaml, or the folder of a run",
    )
    main.add_argument("--samples", action="store_true", help="list every image that is planned")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from triptych.request import read_request  # not before: --help is quick
    from triptych.stages import planned

    request = read_request(arguments.config, options(arguments), dry=True)
    _, lines = planned(request, samples=arguments.samples)
    print(*lines, sep="\n")
