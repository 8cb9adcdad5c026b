"""The section of ``docs/validation/paintskills.md`` on toyworld's scenes: ``python -m lab.validate.skills.page``.

Printed from what `lab.validate.skills` kept beside the weights of `toyworld-skills`; ``--figure``
writes the learning curve.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.methods.skills.scores import ACCURACY, CLASSES, NUMBER
from analysis.methods.skills.tables import ALL, AVERAGE
from analysis.report.figures.style import DOUBLE, INK, PALETTE, Drawn, files, new_figure, style
from lab.templates import render
from probes import command_line
from probes.prompts.paintskills import SKILLS
from probes.runs.parts import write_bytes
from probes.toyworld import SKILLED, WEIGHTS

BENCHMARK_MODEL = "model"
ROWS = {
    "renderings": "exact reader, renderings",
    "autoencoder": "exact reader, renderings through the benchmark model's autoencoder",
    "shared autoencoder": "exact reader, renderings through the autoencoder of the other benchmark models",
    "grounding dino": "toyworld's Grounding DINO, renderings",
    BENCHMARK_MODEL: "**`toyworld-skills`**, exact reader",
}
BESIDE = {
    "shuffled": "the benchmark model's images shuffled (all permutations)",
    "chance": "chance by arithmetic",
}
PARTS = {"count": (NUMBER, "so many, of any class"), "spatial": (CLASSES, "both objects")}
FIGURE = "paintskills_learning"


def tables(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
    """Return the accuracies of every measurement, by its name."""
    return {name: pd.DataFrame(row["accuracy"]) for name, row in rows.items()}


def whole(table: pd.DataFrame, skill: str, task: str = ACCURACY) -> pd.Series:
    """Return the row of a skill and task over all of its images."""
    chosen = table[(table["skill"] == skill) & (table["split"] == ALL) & (table["task"] == task)]
    return chosen.iloc[0]


def shares(names: Sequence[str]) -> dict[int, str]:
    """Return the measurements of the learning curve by the percent of the training scenes."""
    found = {int(name.removeprefix("share ")): name for name in names if name.startswith("share ")}
    return dict(sorted((found | {100: BENCHMARK_MODEL}).items()))


def section(rows: Mapping[str, Mapping[str, Any]], recipe: Mapping[str, Any]) -> str:
    """Return the section in Markdown.

    Parameters
    ----------
    rows : mapping
        ``quality.json``: what `lab.validate.skills.__main__.record` returns, by name.
    recipe : mapping
        ``recipe.json`` of the benchmark model.
    """
    found = tables(rows)
    of_model = found[BENCHMARK_MODEL]
    by_level = of_model[of_model["split"] != ALL]
    return render(
        "skills",
        rows=ROWS,
        skills=(*SKILLS, AVERAGE),
        model=BENCHMARK_MODEL,
        beside=BESIDE,
        whole=lambda name, *asked: whole(found[name], *asked),
        parts=[
            (skill, task, said, by_level[by_level["skill"] == skill].to_dict("records"))
            for skill, (task, said) in PARTS.items()
        ],
        objects=by_level[by_level["skill"] == "object"].to_dict("records"),
        curve=[
            (share, name, round(share / 100 * recipe["steps"])) for share, name in shares(list(found)).items()
        ],
    )


def draw_curve(rows: Mapping[str, Mapping[str, Any]]) -> Drawn:
    """Draw accuracy against the share of the training scenes, with intervals."""
    found = tables(rows)
    with style():
        figure = new_figure(DOUBLE / 2, 2.4)
        axes = figure.subplots()
        for colour, skill in zip(PALETTE, SKILLS):
            points = [(share, whole(found[name], skill)) for share, name in shares(list(found)).items()]
            at = [share for share, _ in points]
            axes.plot(at, [100 * row["value"] for _, row in points], "o-", ms=3, color=colour, label=skill)
            ends = [[100 * row[end] for _, row in points] for end in ("low", "high")]
            axes.vlines(at, *ends, color=INK, lw=0.7)
        axes.set(xlabel="training scenes, %", ylabel="accuracy, %", ylim=(-2, 102))
        axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.72))
    title = "Accuracy of visual skills against the share of the training scenes"
    return Drawn(FIGURE, figure, title, "")


def parser() -> argparse.ArgumentParser:
    """Return the command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.skills.page",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    main.add_argument("--weights", type=Path, default=WEIGHTS / SKILLED, help="folder of the benchmark model")
    main.add_argument(
        "--figure", type=Path, help=f"also write the learning curve, such as docs/validation/{FIGURE}.png"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    rows, recipe = (
        json.loads((options.weights / name).read_text("utf-8")) for name in ("quality.json", "recipe.json")
    )
    if options.figure:
        command_line.writable(options.figure)
        write_bytes(options.figure, files(draw_curve(rows))[f"{FIGURE}.png"])
    print(section(rows, recipe), end="")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
