"""Compare the tool with the benchmark models: ``python -m lab.validate.models.calibrate``.

Without a run it writes docs/validation/calibration.md from calibration.json beside it. Of each run that is given it
first measures what the gaps say and, in a null world, where all words mean the same and any of them may play any part,
how often both tests of a gap reject over all ways to give out the parts. With ``--repeated`` it counts what the reports
of several runs of each benchmark model claim, and what of it is false.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from analysis.study import contrasts, indicators
from analysis.tables.registry import read
from analysis.tables.similarities.stored import StoredSimilarities
from lab.templates import p_number, render
from lab.validate.models import objects, scores
from lab.validate.models.gaps import QUANTITIES, claims_together, headline_gaps, permuted_p_values
from lab.validate.models.repeated import grouped_claims, rate
from lab.validate.runs import whole_run
from probes import command_line
from probes.errors import UserError, parse_json
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS, SYNONYMS, TRANSFORMERS, WORKING
from probes.toyworld.world import GROUPS

PAGE = Path(__file__).parents[3] / "docs/validation/calibration.md"
FAMILIES = (BENCHMARK_MODELS, TRANSFORMERS, SYNONYMS)  # the first of each leans, the last is the null
MODELS = tuple(model for family in FAMILIES for model in family)
NULLS = tuple(family[-1] for family in FAMILIES)
FEATURES = ("ResNet", "CLIP", "DINO", "Split-Product")  # measures of networks that a run may be without
RATES = ("any_false", "unhedged", "right")  # of runs or cards
KEYS = {  # by what a row of each part of the stored numbers is replaced
    "gaps": ("model", "quantity"),
    "exchanged": ("model", "quantity"),
    "together": ("model", "features"),
    "scores": ("model", "engine"),
    "claims": ("name", "noise"),
    "objects": ("model",),
}


def measure(
    runs: Sequence[Run], repeated: Sequence[Run] = (), scored: Sequence[Run] = ()
) -> dict[str, list[dict]]:
    """The rows of each part of the page (`KEYS`) that these runs give; minutes a run of 200 prompts."""
    found = {name: [] for name in KEYS}
    for run in runs:
        model = run.config.model
        for row in headline_gaps(run).to_dict("records"):
            numbers = {name: round(row[name], 4) for name in ("gap", "word_gap", "word_low", "word_high")}
            tests = {name: p_number(row[name]) for name in ("p_value", "p_control")}
            found["gaps"].append({"model": model, "quantity": row["quantity"], **numbers, **tests})
        if model in NULLS:
            _exchange(run, found)
    found["scores"] = [scores.measure(run) for run in scored]
    found["claims"] = grouped_claims(repeated) if repeated else []
    observed = [run.path for run in repeated if run.config.model in BENCHMARK_MODELS and run.parts("objects")]
    found["objects"] = objects.page_rows(observed) if observed else []
    return found


def _exchange(run: Run, found: dict[str, list[dict]]) -> None:
    """How often the tests of a null run reject over all choices of words, by measure and for at least one."""
    model, names = {"model": run.config.model}, [member.name for member in indicators(run.config)]
    p_values = permuted_p_values(StoredSimilarities(run), names)
    for quantity, (flips, words) in p_values.items():
        rates = {"against_0": (flips < 0.05).mean(), "against_words": (words < 0.05).mean()}
        found["exchanged"].append(
            model | {"quantity": quantity} | {k: round(float(v), 4) for k, v in rates.items()}
        )
    alone, together = (round(one, 4) for one in claims_together(p_values))
    features = any(name in p_values for name in FEATURES)
    found["together"].append(model | {"features": features, "alone": alone, "together": together})


def replaced(stored: dict[str, list[dict]], found: dict[str, list[dict]]) -> dict[str, list[dict]]:
    """What is stored, with the rows that were found in place of those of the same keys."""
    return {
        name: list({tuple(row[key] for key in keys): row for row in (*stored[name], *found[name])}.values())
        for name, keys in KEYS.items()
    }


def page(stored: dict[str, list[dict]]) -> str:
    """The page in Markdown, from what is stored."""
    order = [name for name in dict.fromkeys(QUANTITIES.values()) if not name.startswith("x̂₀")]
    shown = {(row["model"], row["quantity"]): row for row in stored["gaps"]}
    exchanged = {(row["model"], row["quantity"]): row for row in stored["exchanged"]}
    together = {(row["model"], row["features"]): row for row in stored["together"]}
    return render(
        "calibration",
        families=[
            [shown[model, name] for model in family for name in order if (model, name) in shown]
            for family in FAMILIES
        ],
        nulls=NULLS,
        exchanged=[(name, [exchanged.get((model, name)) for model in NULLS]) for name in order],
        together=[
            (features, name, [together.get((model, features), {}).get(name) for model in NULLS])
            for features in (False, True)
            for name in ("alone", "together")
        ],
        scores=stored["scores"],
        models=[
            one
            | {name: rate(**one[name]) for name in RATES}
            | {name: sum(row[name] for row in one["kinds"]) for name in ("claims", "false")}
            for one in stored["claims"]
        ],
        kinds=[one | row for one in stored["claims"] for row in one["kinds"] if row["false"]],
        objects=stored["objects"],
    )


def repeated_run(path: Path) -> Run:
    """A measured run of a model whose words have planted frequencies, of whatever method; else a UserError."""
    run = _run_of(path, (*BENCHMARK_MODELS, *WORKING))
    if not run.tables():
        raise UserError(f"{path}: expected a measured run, got one without tables: run its stage measure")
    return run


def benchmark_run(path: Path) -> Run:
    """A measured run of a benchmark model with the indicators of the toy world; else a UserError."""
    run = _run_of(path, MODELS)
    missing = [name for name in GROUPS if name not in run.config.indicators]
    if missing or ("masculine", "feminine") not in contrasts(run.config):
        lacking = f"the indicator {missing[0]}" if missing else "the contrast [masculine, feminine]"
        raise UserError(
            f"{path}: expected a run of docs/validation/calibration.yaml, got one without {lacking}: name another run"
        )
    read(run, "gap")
    return run


def _run_of(path: Path, models: Iterable[str]) -> Run:
    """A whole run of one of these models."""
    run = whole_run(path)
    if run.config.model not in models:
        raise UserError(
            f"{path}: expected a run of a benchmark model ({', '.join(models)}), got one of {run.config.model}: "
            "name another run"
        )
    return run


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.models.calibrate", description=__doc__.split("\n\n")[0]
    )
    options = {"nargs": "+", "type": command_line.run_directory, "default": [], "metavar": "RUN"}
    main.add_argument(
        "runs", **options | {"nargs": "*"}, help="runs of benchmark models, one each: their gaps"
    )
    main.add_argument(
        "--repeated",
        **options,
        help="runs of the benchmark models that differ in their seeds: what do their reports claim, and what is false?",
    )
    main.add_argument("--scores", **options, help="runs whose bias scores are compared with the planted ones")
    main.add_argument(
        "--out", type=Path, default=PAGE, help="page to write; its numbers stand in a .json beside it"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    file = command_line.writable(options.out).with_suffix(".json")
    stored = parse_json((file if file.is_file() else PAGE.with_suffix(".json")).read_text("utf-8"))
    runs, scored = ([benchmark_run(path) for path in paths] for paths in (options.runs, options.scores))
    again = [repeated_run(path) for path in options.repeated]
    if runs or scored or again:
        stored = replaced(stored, measure(runs, again, scored))
        write_bytes(file, _text(stored).encode())
    write_bytes(options.out, page(stored).encode())


def _text(stored: dict[str, list[dict[str, Any]]]) -> str:
    """What is stored, a line a row."""
    parts = (
        f"{json.dumps(name)}: [\n  "
        + ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        + "\n ]"
        for name, rows in stored.items()
    )
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
