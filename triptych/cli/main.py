"""The command ``triptych``: ``triptych triplets.yaml`` makes a run, ``triptych compare RUN RUN`` compares runs.

A command is a module with two functions, and a row here or in `analysis.methods.registry`:

- ``parser()`` returns its `probes.command_line.Parser`, whose help ends with an example;
- ``work(options)`` does what the parsed options ask, and imports what that takes, so that ``--help`` is quick; it may
  return an exit status. Beside its own options it is given ``options.stages``, a function that makes a run from the
  arguments of ``triptych run``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from analysis.methods.registry import METHODS, CommandRow
from probes import command_line
from probes.errors import one_line

_STAGED = {"resumes": True, "begins": False}
GROUPS: dict[str, tuple[CommandRow, ...]] = {  # by their title in `triptych --help`
    "a run": (
        CommandRow("init", "triptych.cli.init", "write a commented triplets.yaml to start from"),
        CommandRow(
            "plan", "triptych.cli.plan", "what a run would generate, and what it would take", **_STAGED
        ),
        CommandRow("run", "triptych.cli.run", "generate, observe, measure and report", **_STAGED),
        CommandRow(
            "trace", "triptych.cli.trace", "activation patching: which site makes the difference", **_STAGED
        ),
        CommandRow("report", "triptych.cli.report", "the report of a measured run anew", **_STAGED),
    ),
    "of measured runs": (
        CommandRow(
            "compare", "triptych.cli.compare", "compare runs on the same prompts: do their gaps differ?"
        ),
        CommandRow("power", "triptych.cli.power", "say how many prompts, seeds and words a difference takes"),
        CommandRow(
            "labels", "triptych.cli.labels", "have people label images: objects, questions, attributes"
        ),
    ),
    "methods": (*(method.command for method in METHODS if method.command),),
    "for others": (
        CommandRow(
            "export",
            "triptych.cli.export",
            "write a run for `datasets`, as COCO, image folder, CSV; a card of its model",
        ),
    ),
    "this installation": (
        CommandRow("models", "triptych.cli.models", "what can be loaded, and how far it was tested"),
        CommandRow(
            "verify", "triptych.cli.verify", "whether what is read of a model is right, on this machine"
        ),
        CommandRow(
            "doctor", "triptych.cli.doctor", "versions, devices, optional parts, checkpoints on this machine"
        ),
    ),
}
COMMANDS = {row.name: row for rows in GROUPS.values() for row in rows}
EXAMPLES = {
    "triptych init": "writes triplets.yaml, for the model that comes with the package",
    "triptych run triplets.yaml": "`triptych triplets.yaml` is the same; ends with where the report is",
    "triptych compare --help": "each command has a help of its own",
}

# Commands that version 0.3 removed, and what to do instead; to go with the next release.
REMOVED = {
    "alignment": "since 0.3 it is `triptych audit alignment`",
    "gep": "since 0.3 it is `triptych audit gep`",
    "card": "removed in 0.3; `triptych export RUN --to card`",
    "edit": "removed in 0.3; write `edit: {words: …, sites: …}` into the configuration",
    "mitigate": "removed in 0.3; run both configurations and put them side by side with `triptych compare`",
    "human-check": "since 0.3 it is `triptych labels`",
    "prompts": "removed in 0.3; `triptych init --from captions.csv`, then `triptych plan`",
    "questions": "since 0.3 it is `triptych labels`",
    "race": "removed in 0.3; run each model and put them side by side with `triptych compare`",
    "sensitivity": "removed in 0.3; the report's specification curve varies words, seeds and readouts; for sigma, theta"
    " and the like set `measure:` and run `--stage measure` again",
    "sae": "removed in 0.3; train with SAELens, and load the folder with `triptych.load_autoencoder`",
}


def help_parser() -> command_line.Parser:
    """Return the argument parser that prints ``triptych --help``; it lists the commands as arguments."""
    main = command_line.Parser(
        prog="triptych",
        usage="triptych COMMAND ...",
        description="One sentence, three times from the same noise, with a neutral, a feminine and a masculine word:"
        " where inside a text-to-image model do they differ, and by more than chance?",
        examples=EXAMPLES,
    )
    main.add_argument("--version", action="store_true", help="print the version and exit")
    for title, rows in GROUPS.items():
        group = main.add_argument_group(title)
        for row in rows:
            group.add_argument(row.name, help=row.summary)
    return main


def split_command(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of the command in a command line, of one word or two, and the arguments after it."""
    words = 2 if " ".join(arguments[:2]) in COMMANDS else 1
    return " ".join(arguments[:words]), list(arguments[words:])


def command(name: str) -> Callable[[Sequence[str]], int]:
    """Return the function that runs a command by name: it takes the arguments and returns the exit status."""
    row = COMMANDS[name]

    def main(argv: Sequence[str]) -> int:
        """Import the command's module and run it with these arguments; return the exit status."""
        module = import_module(row.module)
        parser = module.parser()
        parser.set_defaults(stages=_run_from_arguments)
        interrupted = {"interrupted": command_line.RESUMES} if row.resumes else {}
        return command_line.run(module.work, parser, argv, raise_at_once=row.begins, **interrupted)

    return main


def _run_from_arguments(argv: Sequence[str]) -> None:
    """Run the stages that the arguments of ``triptych run`` ask for; given to commands that begin runs."""
    from triptych.cli import run  # not before: the flags of a run are described by its configuration

    run.work(run.parser().parse_args(argv))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``triptych`` with arguments (default: those of this process); return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        help_parser().print_help()
        return 0
    if arguments[0] == "--version":
        from importlib import metadata

        print(f"triptych {metadata.version('triptych')}")
        return 0
    name, rest = split_command(arguments)
    if name in COMMANDS:
        return command(name)(rest)
    close = difflib.get_close_matches(arguments[0], COMMANDS, 1)
    remedy = REMOVED.get(arguments[0]) or (f"did you mean {close[0]}?" if close else "")
    if remedy and not Path(arguments[0]).suffix and not Path(arguments[0]).exists():
        line = f"command line: expected a command or a configuration, got {arguments[0]!r}: {remedy}"
        print(one_line(line), file=sys.stderr)
        return 2
    return command("run")(arguments)


def program() -> NoReturn:
    """Run the command ``triptych`` with this process's arguments, and end the process with its exit status."""
    command_line.exit_at_once(main())
