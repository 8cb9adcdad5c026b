"""``triptych plan triplets.yaml``: what a run would generate and what it would take; no run is written."""

from __future__ import annotations

import argparse
from pathlib import Path

from probes import command_line
from probes.errors import UserError
from triptych.cli.run import config_overrides, staged_parser


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych plan``."""
    main = staged_parser(
        "plan",
        "Print what a run would generate, what it compares, and the disk it takes. No run is written.",
        {"triptych plan triplets.yaml --seeds 0 1 2": "what three seeds would take"},
        "triplets.yaml, or the folder of a run",
    )
    main.add_argument("--samples", action="store_true", help="list every image that is planned")
    main.add_argument(
        "--captions",
        metavar="FILE",
        type=Path,
        help="CSV to write: each caption of the prompts' file with what was replaced in it, or why it is left out",
    )
    return main


def work(arguments: argparse.Namespace) -> None:
    """Print what a run would generate, and what it would take."""
    from probes.runs.parts import write_bytes
    from triptych.request import read_request  # not before: --help is quick
    from triptych.stages import plan_request

    request = read_request(arguments.config, config_overrides(arguments), dry=True)
    if arguments.captions:
        if request.captions is None:
            raise UserError("--captions: expected prompts from a file of captions, got others: leave it out")
        write_bytes(arguments.captions, request.captions.table())
    _, lines = plan_request(request, samples=arguments.samples)
    print(*lines, sep="\n")
