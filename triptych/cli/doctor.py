"""``triptych doctor``: versions, devices, optional parts and checkpoints."""

from __future__ import annotations

import argparse

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    return command_line.Parser(
        prog="triptych doctor",
        description="Say what is installed here and what is missing, which devices, models and checkpoints there are."
        " Asks no network.",
        examples={"triptych doctor": "what to send with a question"},
    )


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
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
