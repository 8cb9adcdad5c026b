"""``triptych run triplets.yaml``, also ``python -m probes.run triplets.yaml``: the stages of a run, in their order."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from probes import command_line
from probes.execution import signals
from triptych.options import parser


def stages(argv: Sequence[str]) -> None:
    """Run the stages that the arguments name, for a command that makes a run."""
    work(parser().parse_args(argv))


def work(arguments: argparse.Namespace) -> None:
    """Run the stages with the parsed arguments."""
    from triptych.request import Command  # not before: --help is quick
    from triptych.stages import run

    run(Command.of_arguments(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status, see `probes.command_line.run`."""
    return command_line.run(work, parser(), argv, interrupted=command_line.RESUMES, begins=False)


if __name__ == "__main__":
    signals.leave(main())
