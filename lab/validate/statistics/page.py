"""The page on error rates of tests and coverage of intervals, from docs/validation/statistics.json.

``python -m lab.validate.statistics.page`` writes it; with ``--measure NAME ...`` it simulates these sweeps anew first
(`SWEEPS`; minutes each, all of them an hour and more), and keeps what is stored of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lab.templates import render
from lab.validate.statistics import audits, gaps, objects, report_pages, traces
from lab.validate.statistics.rates import lines, summaries
from probes import command_line
from probes.errors import parse_json
from probes.runs.parts import write_bytes

PAGE = Path(__file__).parents[3] / "docs/validation/statistics.md"
# By its name in the page: simulations a world, and what simulates them.
SWEEPS: dict[str, tuple[int, Callable[[int, int], Any]]] = {
    "gaps": (4000, gaps.gap_rejections),
    "gap_coverage": (2000, gaps.gap_coverage),
    "design": (2000, gaps.design_gaps),
    "words": (500, gaps.words),
    "words_leaning": (500, gaps.words_leaning),
    "words_hostile": (500, gaps.words_hostile),
    "words_odd": (1000, gaps.words_odd),
    "words_pictures": (1000, gaps.words_pictures),
    "rare": (2000, gaps.rare_equivalence),
    "side_shares": (500, gaps.side_share_coverage),
    "shared": (2000, gaps.shared_noise_rejections),
    "objects": (4000, objects.object_rejections),
    "object_coverage": (2000, objects.object_coverage),
    "claims": (100, objects.claim_rates),
    "hints": (26, objects.hint_rates),
    "correction": (100, objects.correction_coverage),
    "profession_pages": (300, report_pages.profession_pages),
    "labelled_pages": (500, report_pages.labelled_pages),
    "shares": (250, traces.share_coverage),
    "selected": (250, traces.selected_coverage),
    "largest": (125, traces.largest_coverage),
    "floors": (125, traces.floor_rejections),
    "interplay": (62, traces.interplay_claims),
    "probes": (100, traces.probe_coverage),
    "labels": (100, audits.label_coverage),
    "units": (100, audits.unit_rejections),
    "powered": (200, audits.powered_coverage),
    "powered_rejections": (200, audits.powered_rejections),
    "compared": (200, audits.compared_scores),
}


def measure(names: Sequence[str], *, part: int = 1, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Simulate these sweeps, with one in so many of their simulations; `rows` of each, and what stands `beside`."""
    found = {}
    for name in names:
        simulations, measured = SWEEPS[name]
        result = measured(max(2, simulations // part), seed)
        table, beside = (result, None) if isinstance(result, pd.DataFrame) else result
        found[name] = {"rows": summaries(table)} | ({"beside": _rounded(beside)} if beside else {})
        print(name, file=sys.stderr, flush=True)
    return found


def _rounded(rows: list[dict]) -> list[dict]:
    return [{name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()} for row in rows]


def _biases(rows: list[dict]) -> dict[str, Any]:
    """How many scores are within `audits.NEAR` of the truth on average, the farthest, and how far tau is off."""
    off = pd.DataFrame(rows)
    found = {
        "rows": len(off),
        "near": (off["score"].abs() <= audits.NEAR).sum(),
        "farthest": off["score"].abs().max(),
    }
    if "ceiling" in off:
        known = off[(off["n"] < audits.IMAGES) & (off["ceilings"] > 0.9)]
        found["tau"] = (known["ceiling"] - known["tau"]).abs().max()
    return found


def _lines(stored: dict[str, dict[str, Any]], name: str, label: str) -> list[list[str]]:
    """The lines of a sweep, `label` before each."""
    rows = lines(stored[name]["rows"])
    return [[f"{label}: {first}", *rest] for first, *rest in rows] if label else rows


def page(stored: dict[str, dict[str, Any]]) -> str:
    """The page in Markdown, from what is stored of every sweep."""
    return render(
        "statistics",
        rows=lambda *names: [line for name in names for line in _lines(stored, *name.partition("=")[::2])],
        widths=stored["probes"]["beside"],
        biases={name: _biases(stored[name]["beside"]) for name in ("labels", "powered")},
        default="3 against 3, 3 of the reference",
        objects=objects.OBJECTS,
        many=objects.MANY,
        near=audits.NEAR,
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.statistics.page",
        description="Write the page on error rates from what is stored, simulating parts of it anew first.",
    )
    main.add_argument(
        "--measure", nargs="+", choices=SWEEPS, default=[], metavar="NAME", help=f"of {', '.join(SWEEPS)}"
    )
    main.add_argument(
        "--out", type=Path, default=PAGE, help="page to write; its numbers stand in a .json beside it"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    file = command_line.writable(options.out).with_suffix(".json")
    stored = parse_json((file if file.is_file() else PAGE.with_suffix(".json")).read_text("utf-8"))
    if options.measure:
        stored |= measure(options.measure)
        text = ",\n".join(f"{json.dumps(name)}: {_text(one)}" for name, one in stored.items())
        write_bytes(file, f"{{\n{text}\n}}\n".encode())
    write_bytes(options.out, page(stored).encode())


def _text(one: dict[str, list[dict]]) -> str:
    """What is stored of a sweep, a line a row."""
    parts = (
        f'"{name}": [\n  ' + ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n ]"
        for name, rows in one.items()
    )
    return "{" + ", ".join(parts) + "}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
