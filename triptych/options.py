"""The options of the command line ``python -m probes.run``, and where each of them stands in ``triplets.yaml``."""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

from probes import command_line
from probes.config.documentation import flag_help

STAGES = ("plan", "generate", "observe", "trace", "measure", "report")
EXAMPLES = """examples:
  python -m probes.run triplets.yaml
      the bundled model, all stages; running it again goes on where it stopped
  python -m probes.run runs/first-light --stage trace
      which site makes the difference: activation patching, of a run that has its images
  python -m probes.run triplets.yaml --model toyworld-null --seeds 0 1 2 --steps 20 --out runs/null
      another model, three seeds, twenty steps, in a folder of its own
"""


@dataclass(frozen=True)
class _Option:
    """A flag that overrides a field of ``triplets.yaml``; what it does is what the schema says of the field."""

    field: str  # its dotted place there
    kind: type
    metavar: str | None = None
    flag: str = ""  # where it is not the last name of the place
    several: bool = False

    @property
    def name(self) -> str:
        """Of the argument, as argparse stores it."""
        return self.flag or self.field.rpartition(".")[2]

    @property
    def written(self) -> str:
        """The flag as a user writes it."""
        return f"--{self.name.replace('_', '-')}"

    def add(self, group: argparse._ArgumentGroup) -> None:
        """Let a parser take it."""
        group.add_argument(
            self.written,
            nargs="+" if self.several else None,
            metavar=self.metavar,
            help=flag_help(self.field).replace("%", "%%"),
        )


_FIELDS = {  # by the title of their group in --help
    "what to generate": (
        _Option("model", str),
        _Option("seeds", int, "N", several=True),
        _Option("limit", int, "N"),
    ),
    "how to generate": (
        _Option("sampler.steps", int, "N"),
        _Option("sampler.guidance_scale", float, "X"),
        _Option("sampler.scheduler", str, "NAME"),
        _Option("sampler.negative_prompt", str, "TEXT"),
        _Option("sampler.height", int, "PX"),
        _Option("sampler.width", int, "PX"),
    ),
    "where and with what": (
        _Option("out", str, "FOLDER"),
        _Option("generate.device", str),
        _Option("generate.dtype", str),
        _Option("generate.batch_triplets", int, "N"),
        _Option("generate.workers", int, "N"),
        _Option("cluster.address", str, "ADDRESS", flag="cluster"),
    ),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, each of whose options overrides a field of ``triplets.yaml``."""
    main = command_line.Parser(
        prog="python -m probes.run",
        description="Generate triplets of images and measure where inside the model they differ.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main.add_argument("config", help="triplets.yaml, or the folder of a run to take a stage up again")
    for title, fields in _FIELDS.items():
        group = main.add_argument_group(title)
        for field in fields:
            field.add(group)

    which = main.add_argument_group("which work")
    which.add_argument(
        "--stage", choices=STAGES, help="only this stage (default: all, in this order; trace where asked for)"
    )
    which.add_argument(
        "--shard",
        metavar="I/N",
        help="only share I, from 0 to N - 1, of N: for jobs of an array on one run directory",
    )
    which.add_argument("--dry-run", action="store_true", help="print the plan and an estimate, write nothing")
    which.add_argument(
        "--samples", action="store_true", help="with --dry-run: list every image that is planned"
    )
    which.add_argument("--overwrite", action="store_true", help="replace the run that is in the folder")
    which.add_argument("--quiet", action="store_true", help="no progress bars")
    which.add_argument("--schema", action=_Schema, help="print the JSON schema of triplets.yaml and exit")
    return main


class _Schema(argparse.Action):
    """Print the schema and end, as --help does: no triplets.yaml is needed."""

    def __init__(self, **options):
        super().__init__(**options, nargs=0)

    def __call__(self, parser, namespace, values, option_string=None):
        from probes.config.schema import schema_text

        print(schema_text(), end="")
        parser.exit()


def options(arguments: argparse.Namespace) -> dict[tuple[str, ...], tuple[str, object]]:
    """Return the values of the command line, each with its flag, by its place in ``triplets.yaml``."""
    chosen: dict[tuple[str, ...], tuple[str, object]] = {}
    for field in itertools.chain.from_iterable(_FIELDS.values()):
        value = getattr(arguments, field.name)
        if value is not None:
            given = [_as(one, field.kind) for one in value] if field.several else _as(value, field.kind)
            chosen[tuple(field.field.split("."))] = (field.written, given)
    return chosen


def _as(text: str, kind: type) -> object:
    """A number where one is meant; what is none is left to the schema, whose errors say what was expected."""
    try:
        return kind(text)
    except ValueError:
        return text
