"""The command ``triptych``: ``triptych triplets.yaml`` makes a run, ``triptych compare RUN RUN`` compares runs.

A command is a module with two functions, and a row here or in `analysis.methods.registry`:

- ``parser()`` returns its `probes.command_line.Parser`;
- ``work(options)`` does what the parsed options ask. Beside its own options it is given ``options.stages``, a function
  that makes a run from the arguments of ``triptych run``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from analysis.methods.registry import METHODS, CommandRow
from probes import command_line
from probes.errors import one_line

COMMANDS = {
    row.name: row
    for row in (
        CommandRow(
            "compare", "triptych.cli.compare", "compare runs on the same prompts: do their gaps differ?"
        ),
        CommandRow(
            "sensitivity",
            "triptych.cli.sensitivity",
            "say which findings depend on choices made in measuring",
        ),
        CommandRow("power", "triptych.cli.power", "say how many prompts, seeds and words a difference takes"),
        CommandRow(
            "export",
            "triptych.cli.export",
            "write a run as COCO, FiftyOne, image folder, CSV; upload it to the Hub",
        ),
        CommandRow("card", "triptych.cli.card", "write model card and evaluation records of a run"),
        CommandRow("human-check", "triptych.cli.human_check", "have people check the detected objects"),
        CommandRow(
            "questions",
            "triptych.cli.questions",
            "have people answer questions about images",
        ),
        CommandRow("prompts", "triptych.cli.prompts", "make prompts from a set, or from captions"),
        *(method.command for method in METHODS if method.command),
    )
}
USAGE = """usage: triptych CONFIG ...           make a run, see triptych run --help
       triptych COMMAND ...

commands (each has a --help):"""


def listing() -> str:
    """Return the commands, one line each."""
    rows = {"run": "generate, observe, measure and report, from a configuration"} | {
        name: row.summary for name, row in COMMANDS.items()
    }
    width = max(map(len, rows))
    return "\n".join([USAGE, *(f"  {name:<{width}}  {summary}" for name, summary in rows.items())])


def command(name: str) -> Callable[[Sequence[str]], int]:
    """Return a command of this table as a function from its arguments to its exit status."""
    row = COMMANDS[name]

    def main(argv: Sequence[str]) -> int:
        from triptych.cli import run

        module = import_module(row.module)
        parser = module.parser()
        parser.set_defaults(stages=run.stages)
        interrupted = {"interrupted": command_line.RESUMES} if row.resumes else {}
        return command_line.run(module.work, parser, argv, **interrupted)

    return main


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status, see `probes.command_line.run`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(listing())
        return 0
    if arguments[0] in COMMANDS:
        return command(arguments[0])(arguments[1:])
    close = difflib.get_close_matches(arguments[0], ["run", *COMMANDS], 1)
    if close and arguments[0] != "run" and not Path(arguments[0]).suffix and not Path(arguments[0]).exists():
        line = f"command line: expected a command or a configuration, got {arguments[0]!r}: did you mean {close[0]}?"
        print(one_line(line), file=sys.stderr)
        return 2
    from triptych.cli import run

    return run.main(arguments[1:] if arguments[0] == "run" else arguments)
