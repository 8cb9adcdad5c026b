"""``triptych run triplets.yaml``, also ``python -m probes.run triplets.yaml``: the stages of a run, in their order."""

from __future__ import annotations

import argparse

from triptych.options import config_overrides, parser

__all__ = ["parser", "work"]


def work(arguments: argparse.Namespace) -> None:
    """Run the stages that the parsed arguments of a run, report or trace command ask for, and print what was done."""
    from probes.errors import printable
    from triptych.request import read_request  # not before: --help is quick
    from triptych.stages import run

    asked, only = config_overrides(arguments), arguments.stage
    how = {"overwrite": arguments.overwrite, "quiet": arguments.quiet}
    _, lines = run(read_request(arguments.config, asked, only, **how))
    print(*map(printable, lines), sep="\n")
