"""R-precision, captions, FID and KID of the benchmark models: ``python -m lab.validate.alignment --runs FOLDER``.

Generates what ``docs/validation/alignment.yaml`` names with each, compares it with renderings of the same prompts, and
writes ``docs/validation/alignment.json`` and, from it alone, ``docs/validation/alignment.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.methods.alignment.arguments import parser as options_of_alignment
from analysis.methods.alignment.command import measure
from analysis.methods.alignment.tables import ALL
from lab.templates import render
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import BENCHMARK_MODELS
from triptych.cli import run

DOCS = Path(__file__).parents[2] / "docs" / "validation"
TABLES = ("alignment_retrieval", "alignment_captions", "alignment_quality")
TEXTS = ("features", "captioner", "metric", "measure", "reason")
NUMBERS = ("dimension", "chance", "negatives", "n_images", "n_prompts", "value", "r_precision", "low", "high")


def measured(model: str, folder: Path) -> list[dict[str, Any]]:
    """Generate and measure a benchmark model's run in a folder, or go on with it; return a row per number."""
    path = folder / f"{model}.yaml"
    settings = yaml.safe_load((DOCS / "alignment.yaml").read_text("utf-8"))
    write_bytes(path, yaml.safe_dump({"name": model, "model": model, **settings}).encode())
    for stage in ("generate", "observe", "measure"):
        line = [str(path), "--out", str(folder / model), "--stage", stage, "--quiet"]
        run.work(run.parser().parse_args(line))
    made = measure(options_of_alignment().parse_args([str(folder / model), "--reference", "renderings"]))
    rows = [(name, row) for name in TABLES if name in made for row in made[name].to_dict("records")]
    return [_stored(name, row) for name, row in rows if row["indicator"] == ALL]


def _stored(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a row: its names, and its numbers in six decimals, without those that are NaN."""
    texts = {name: row[name] for name in TEXTS if name in row}
    numbers = {name: round(float(row[name]), 6) for name in NUMBERS if name in row and row[name] == row[name]}
    return {"table": table, **texts, **numbers}


def page(numbers: dict[str, list[dict[str, Any]]]) -> str:
    """Return the page in Markdown, from what `measured` gave of each model."""
    return render("alignment", models=numbers, find=_found)


def _found(rows: list[dict[str, Any]], **sought: str) -> dict[str, Any]:
    """The row in which fields have these values."""
    return next(row for row in rows if all(row.get(name) == value for name, value in sought.items()))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(prog="python -m lab.validate.alignment", description=__doc__.split("\n\n")[0])
    main.add_argument("--runs", type=Path, required=True, help="folder for the runs, or with some of them")
    main.add_argument("--out", type=Path, default=DOCS, help="folder for alignment.json and alignment.md")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.runs, folder=True)
    command_line.writable(options.out, folder=True)
    numbers = {model: measured(model, options.runs) for model in BENCHMARK_MODELS}
    write_bytes(options.out / "alignment.json", (json.dumps(numbers, indent=1) + "\n").encode())
    write_bytes(options.out / "alignment.md", page(numbers).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
