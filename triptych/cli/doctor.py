"""``triptych doctor``: versions, devices, optional parts, checkpoints, and what an image costs on this machine."""

from __future__ import annotations

import argparse
from time import monotonic
from typing import TYPE_CHECKING

from probes import command_line

if TYPE_CHECKING:
    from triptych.image_cost import ImageCost

SECONDS = 15  # after which no further image is begun, so that all is said in about 20


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych doctor",
        description="Say what is installed here and what is missing, which devices, models and checkpoints there are,"
        " and what an image costs on this machine. Asks no network.",
        examples={"triptych doctor": "about 20 seconds, most of them images of the bundled model"},
    )
    main.add_argument("--quick", action="store_true", help="leave out what an image costs")
    return main


def described(cost: ImageCost) -> str:
    """Return the cost of an image as a line.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> described(
    ...     SimpleNamespace(model="a/b", side=512, steps=30, seconds=412.3, basis="measured on 6 images")
    ... )
    'a/b, 512 x 512 pixels, 30 steps: 6.9 min (measured on 6 images)'
    """
    seconds = cost.seconds
    if seconds < 90:
        said = f"{seconds:.2g} s"
    else:
        said = f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return f"{cost.model}, {cost.side} x {cost.side} pixels, {cost.steps} steps: {said} ({cost.basis})"


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    deadline = monotonic() + SECONDS
    from probes.errors import UserError, printable
    from triptych import installation

    def section(title: str, lines: list[str]) -> None:
        print(f"{title}:", *(f"  {printable(line)}" for line in lines), "", sep="\n", flush=True)

    section("versions", installation.versions())
    if missing := installation.unmet(installation.requirements()):
        raise UserError(f"triptych: expected {', '.join(missing)}: install these")
    section("this machine", installation.machine())
    section("optional parts", installation.optional_parts())
    section(
        "checkpoints that observe images (docs/how_to/models.md says how to fetch them)",
        installation.checkpoints(),
    )
    if options.quick:
        return
    from triptych import image_cost

    costs = [image_cost.measured(deadline), *image_cost.reckoned()]
    section(
        "an image here, by one process (`triptych plan` says it of a run)",
        [described(cost) for cost in costs],
    )
