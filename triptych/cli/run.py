"""``triptych run triplets.yaml``, also ``python -m probes.run triplets.yaml``: the stages of a run, in their order."""

from __future__ import annotations

import argparse

from triptych.options import options, parser

__all__ = ["parser", "work"]


def work(arguments: argparse.Namespace) -> None:
    """Run the stages with the parsed arguments."""
    from probes.errors import printable
    from triptych import request, stages  # not before: --help is quick

    asked = request.read_request(
        arguments.config,
        options(arguments),
        arguments.stage,
        overwrite=arguments.overwrite,
        quiet=arguments.quiet,
    )
    _, lines = stages.run(asked)
    print(*map(printable, lines), sep="\n")
