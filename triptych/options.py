"""The options of ``triptych run`` and its like, and where each of them stands in ``triplets.yaml``."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from probes import command_line
from probes.config.documentation import flag_help
from probes.errors import UserError

UNTIL = (
    "stop when a question is answered: direction, equivalence, gap (either of both), or ±0.05, an interval so narrow"
    " (stop; default: all images are drawn)"
)
STAGES = ("plan", "generate", "observe", "trace", "measure", "report")
EXAMPLES = {
    "triptych run triplets.yaml": "the bundled model, all stages; running it again goes on where it stopped",
    "triptych run runs/first-light --stage observe --overwrite": (
        "observe the images of a run again, and replace what was observed"
    ),
    "triptych run triplets.yaml --model toyworld-null --seeds 0 1 2 --steps 20 --out runs/null": (
        "another model, three seeds, twenty steps, in a folder of its own"
    ),
}
# of a command that goes through stages: what an option of `triptych run` says, where it has none
STAGED = {
    "stage": None,
    "dry_run": False,
    "overwrite": False,
    "quiet": False,
    "samples": False,
}


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


WHAT, HOW, WHERE = _FIELDS


def _no_shard(text: str) -> NoReturn:
    raise UserError(
        f"--shard: removed, got {text!r}: start the same command in each job of the array, they share the parts"
    )


def parser() -> command_line.Parser:
    """Return the parser of ``triptych run``; most of its options override a field of ``triplets.yaml``."""
    main = staged_parser(
        "run",
        "Generate triplets of images and measure where inside the model they differ.",
        EXAMPLES,
        "triplets.yaml, or the folder of a run to take a stage up again",
    )
    which = main.add_argument_group("which work")
    which.add_argument(
        "--stage", choices=STAGES, help="only this stage (default: all, in this order; trace where asked for)"
    )
    which.add_argument("--shard", type=_no_shard, help=argparse.SUPPRESS)
    which.add_argument("--dry-run", action="store_true", help="print the plan and an estimate, write nothing")
    which.add_argument(
        "--samples", action="store_true", help="with --dry-run: list every image that is planned"
    )
    which.add_argument("--overwrite", action="store_true", help="replace the run that is in the folder")
    which.add_argument("--quiet", action="store_true", help="no progress bars")
    which.add_argument(
        "--schema",
        action=_Schema,
        default=argparse.SUPPRESS,
        help="print the JSON schema of triplets.yaml and exit",
    )
    return main


def staged_parser(
    name: str,
    description: str,
    examples: Mapping[str, str],
    config: str,
    groups: Sequence[str] = tuple(_FIELDS),
) -> command_line.Parser:
    """Return a parser of a command that goes through stages, as `triptych.stages.run` takes its arguments.

    Parameters
    ----------
    name : str
        Of the command.
    description : str
    examples : mapping of str to str
        See `probes.command_line.Parser`.
    config : str
        What its argument, ``config``, may be.
    groups : sequence of str
        Of the options over fields of ``triplets.yaml``, those that it has: `WHAT`, `HOW` and `WHERE`.
    """
    main = command_line.Parser(prog=f"triptych {name}", description=description, examples=examples)
    main.add_argument("config", help=config)
    for title, fields in _FIELDS.items():
        if title not in groups:
            main.set_defaults(
                **{field.name: None for field in fields}, **({"until": None} if title == WHAT else {})
            )
            continue
        group = main.add_argument_group(title)
        for field in fields:
            field.add(group)
        if title == WHAT:
            group.add_argument("--until", metavar="WHAT", help=UNTIL)
    main.set_defaults(**STAGED)
    return main


def add_fields(main: command_line.Parser, names: Collection[str]) -> None:
    """Let a parser of its own take some of the options over fields of ``triplets.yaml``, by name, and no others."""
    for title, fields in _FIELDS.items():
        group = main.add_argument_group(title)
        for field in fields:
            if field.name in names:
                field.add(group)
            else:
                main.set_defaults(**{field.name: main.get_default(field.name)})
    main.set_defaults(until=None)


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
    if arguments.until is not None:
        from probes.config.stop_options import of_text  # not before: --help is quick

        if (stop := of_text(arguments.until)) is None:
            raise UserError(
                "--until: expected direction, equivalence, gap or ±X such as ±0.05, got"
                f" `{arguments.until}`: write one of them"
            )
        chosen |= {("stop", name): ("--until", value) for name, value in stop.items()}
    return chosen


def _as(text: str, kind: type) -> object:
    """A number where one is meant; what is none is left to the schema, whose errors say what was expected."""
    try:
        return kind(text)
    except ValueError:
        return text
