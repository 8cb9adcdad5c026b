"""The table of ``docs/validation/paintskills.md`` on toyworld's scenes: ``python -m lab.validate.skills.page``.

Printed from what `lab.validate.skills` kept beside the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.methods.skills.scores import ACCURACY
from analysis.methods.skills.tables import ALL, AVERAGE
from lab.templates import render
from probes import command_line
from probes.prompts.paintskills import SKILLS

STORED = Path(__file__).parents[3] / "docs" / "validation" / "paintskills.json"
ROWS = {
    "renderings": "exact reader, renderings",
    "grounding dino": "toyworld's Grounding DINO, renderings",
}


def whole(table: pd.DataFrame, skill: str) -> pd.Series:
    """Return the accuracy of a skill over all of its images."""
    chosen = table[(table["skill"] == skill) & (table["split"] == ALL) & (table["task"] == ACCURACY)]
    return chosen.iloc[0]


def section(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table in Markdown, from the rows of `lab.validate.skills.__main__.record` by name."""
    found = {name: pd.DataFrame(row["accuracy"]) for name, row in rows.items()}
    return render(
        "skills", rows=ROWS, skills=(*SKILLS, AVERAGE), whole=lambda name, skill: whole(found[name], skill)
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.skills.page",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    main.add_argument("--stored", type=Path, default=STORED, help="JSON file with the accuracies")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    print(section(json.loads(options.stored.read_text("utf-8"))), end="")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
