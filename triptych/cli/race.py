"""``triptych race A.yaml B.yaml``: which of several models leans most; those that are behind are drawn no further."""

from __future__ import annotations

import argparse

from probes import command_line
from triptych.options import add_fields

FIELDS = (
    *("seeds", "limit", "steps", "guidance_scale", "scheduler", "height", "width"),
    *("device", "dtype", "batch_triplets", "workers"),
)


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych race",
        description="Draw several models on the same prompts, or several prompts over the same seeds, part by part, and"
        " leave out those that are surely behind another, until one is left or those that are left are as good as"
        " equal. Each is a run in a folder of its own; beside them stand race.html and the table race.",
        examples={
            "triptych race triplets.yaml --models toyworld toyworld-null --find most": "who leans most, either way",
            "triptych race sd15.yaml sdxl.yaml --find masculine": "who leans most towards masculine prompts",
        },
    )
    add = main.add_argument
    add("configs", nargs="+", help="triplets.yaml of each model; or of all of them, with --models")
    add(
        "--models",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="models that one configuration is drawn with (default: that of each configuration)",
    )
    add(
        "--find",
        default="most",
        metavar="WHAT",
        help="most: who leans most, either way; least: who leans least; or a side of the contrast, such as masculine",
    )
    add(
        "--within",
        type=command_line.number(0, ends=False),
        metavar="X",
        help="difference of two gaps that would matter: entrants within it of each other tie (default: stop.within)",
    )
    add(
        "--these-words",
        action="store_true",
        help="ask about these words alone, not about others of their meaning",
    )
    main.add_out("runs/race")
    add("--quiet", action="store_true", help="no progress bars")
    add_fields(main, FIELDS)
    return main


def work(arguments: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from probes.errors import printable
    from triptych import racing  # not before: --help is quick
    from triptych.options import options

    out = command_line.writable(arguments.out, folder=True)
    chosen = {place: one for place, one in options(arguments).items() if place != ("out",)}
    if arguments.within is not None:
        chosen["stop", "within"] = ("--within", arguments.within)
    commands = racing.entrants(arguments.configs, arguments.models, chosen, out, quiet=arguments.quiet)
    found = racing.race(commands, arguments.find, out, these_words=arguments.these_words)
    for line in repr(found).splitlines():
        print(printable(line))
    print(printable(f"race: {found.path / 'race.html'}"))
