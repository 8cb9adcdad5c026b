"""``triptych run triplets.yaml``, also ``python -m probes.run triplets.yaml``: the stages of a run, in their order.

Its options, those of commands like it, and where each of them stands in ``triplets.yaml``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import get_origin

from probes import command_line
from probes.config.generation import stop_from_text
from probes.config.schema import STAGES, field_at, flag_help, schema_text
from probes.errors import UserError, printable
from probes.fields.types import types_in

UNTIL = (
    "stop when a question is answered: direction, equivalence, gap (either of both), or ±0.05, an interval so narrow"
    " (stop; default: all images are drawn)"
)
EXAMPLES = {
    "triptych run triplets.yaml": "the bundled model, all stages; running it again goes on where it stopped",
    "triptych run runs/first-light --stage observe --overwrite": (
        "observe the images of a run again, and replace what was observed"
    ),
    "triptych run triplets.yaml --model toyworld-null --seeds 0 1 2 --steps 20 --out runs/null": (
        "another model, three seeds, twenty steps, in a folder of its own"
    ),
}
# fields of ``triplets.yaml`` that a flag overrides, each with the name of its value, by the title of their group
_FIELDS = {
    "what to generate": {"model": "MODEL", "seeds": "N", "limit": "N"},
    "how to generate": {
        "sampler.steps": "N",
        "sampler.guidance_scale": "X",
        "sampler.scheduler": "NAME",
        "sampler.negative_prompt": "TEXT",
        "sampler.height": "PX",
        "sampler.width": "PX",
    },
    "where and with what": {
        "out": "FOLDER",
        "generate.device": "DEVICE",
        "generate.dtype": "DTYPE",
        "generate.batch_triplets": "N",
        "generate.workers": "N",
        "cluster.address": "ADDRESS",
    },
    "what to report": {"report.gallery": "N", "report.figures": "FORMAT"},
}
WHAT, HOW, WHERE, REPORT = _FIELDS


def field_flag(path: str) -> str:
    """Return the command-line flag that overrides a field of ``triplets.yaml``, given by its dotted path.

    >>> field_flag("sampler.guidance_scale"), field_flag("cluster.address")
    ('--guidance-scale', '--cluster')
    """
    name = "cluster" if path == "cluster.address" else path.rpartition(".")[2]
    return f"--{name.replace('_', '-')}"


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych run``; most options override a field of ``triplets.yaml``."""
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
    which.add_argument("--overwrite", action="store_true", help="replace the run that is in the folder")
    which.add_argument("--quiet", action="store_true", help="no progress bars")
    which.add_argument(
        "--schema",
        action=_PrintSchema,
        nargs=0,
        default=argparse.SUPPRESS,
        help="print the JSON schema of triplets.yaml and exit",
    )
    return main


def staged_parser(
    name: str,
    description: str,
    examples: Mapping[str, str],
    config_help: str,
    groups: Sequence[str] = tuple(_FIELDS),
) -> command_line.Parser:
    """Return the parser of a command that runs stages, with the flags of some `groups` of options (default: all).

    `examples` are command lines, each with what it does. Flags of other groups are None in the parsed arguments.
    """
    main = command_line.Parser(prog=f"triptych {name}", description=description, examples=examples)
    # what an option of `triptych run` says, where a command has none
    main.set_defaults(stage=None, until=None, overwrite=False, quiet=False)
    main.add_argument("config", help=config_help)
    for title, fields in _FIELDS.items():
        group = main.add_argument_group(title) if title in groups else None
        for path, metavar in fields.items():
            flag = field_flag(path)
            if group is None:
                main.set_defaults(**{flag.strip("-").replace("-", "_"): None})
            else:
                field = field_at(path)
                group.add_argument(
                    flag,
                    nargs="+" if get_origin(field.annotation) is list else None,
                    metavar=metavar,
                    help=flag_help(path).replace("%", "%%"),
                )
        if title == WHAT and group is not None:
            group.add_argument("--until", metavar="WHAT", help=UNTIL)
    return main


class _PrintSchema(argparse.Action):
    """The action of ``--schema``: print the JSON schema of ``triplets.yaml`` and exit, as ``--help`` does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the JSON schema and exit; `parser` is the command's."""
        print(schema_text(), end="")
        parser.exit()


def config_overrides(arguments: argparse.Namespace) -> dict[tuple[str, ...], tuple[str, object]]:
    """Return the given options as ``{path of keys in triplets.yaml: (flag, value)}``; UserError for a bad --until."""
    chosen: dict[tuple[str, ...], tuple[str, object]] = {}
    for path in itertools.chain.from_iterable(_FIELDS.values()):
        flag = field_flag(path)
        value = getattr(arguments, flag.strip("-").replace("-", "_"))
        if value is not None:
            given = (
                [_to_number(path, text) for text in value]
                if isinstance(value, list)
                else _to_number(path, value)
            )
            chosen[tuple(path.split("."))] = (flag, given)
    if arguments.until is not None:
        if (stop := stop_from_text(arguments.until)) is None:
            raise UserError(
                "--until: expected direction, equivalence, gap or ±X such as ±0.05, got"
                f" `{arguments.until}`: write one of them"
            )
        chosen |= {("stop", name): ("--until", value) for name, value in stop.items()}
    return chosen


def _to_number(path: str, text: str) -> object:
    """Return an option's text as a number if the field at its dotted path takes one, else unchanged."""
    for kind in (int, float):
        if kind in types_in(field_at(path).annotation):
            with contextlib.suppress(ValueError):
                return kind(text)
    return text


def work(arguments: argparse.Namespace) -> None:
    """Run the stages that a command run, report or trace asks for, and print what was done."""
    from triptych.request import read_request  # not before: --help is quick
    from triptych.stages import run

    overrides, stage = config_overrides(arguments), arguments.stage
    flags = {"overwrite": arguments.overwrite, "quiet": arguments.quiet}
    _, lines = run(read_request(arguments.config, overrides, stage, **flags))
    print(*map(printable, lines), sep="\n")
