"""The page on toyworld's detectors, from what was measured.

``python -m lab.train.detectors.page > docs/validation/detectors.md``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from analysis.observe.objects.engines.grounded import OWN_NMS
from lab.templates import render
from lab.train.detectors.measure import BOX_THRESHOLD, INDICATORS
from lab.train.detectors.tagger_quality import BAR
from probes import command_line
from probes.toyworld import WEIGHTS

BARS = {"mask IoU": 0.80, "AP50": 0.85, "recall and precision": 0.85}
FEWEST = 5  # images of a class and word that the page names
FOLDERS = ("sam", "grounding-dino", "ram")
FOUND = {
    "presence": "label seen",
    "iou_0.5": "and IoU with its box at least 0.5",
    "run_presence": "label kept, as in a run",
    "run_iou_0.5": "as in a run, and IoU at least 0.5",
}
TAGGED = {"renderings": "renderings", "drawn": "images drawn by the benchmark models"}


def page() -> str:
    """Return the page in Markdown, from ``quality.json`` beside each detector's weights."""
    sam, dino, ram = (_read(name, "quality") for name in FOLDERS)
    found = {what: _rates(dino[f"generated_{name}"]["rates"]) for name, what in FOUND.items()}
    kept = found[FOUND["run_presence"]]
    return render(
        "detectors",
        bars=BARS,
        indicators=INDICATORS,
        sam=sam,
        dino=dino,
        found=found,
        worst=[row for row in kept.values() if _is_low(row, kept)],
        box_threshold=BOX_THRESHOLD,
        own_nms=OWN_NMS,
        ram=ram,
        tagged=TAGGED,
        bar=BAR,
        below={name: _below(ram[name]) for name in TAGGED},
    )


def _read(detector: str, name: str) -> dict[str, Any]:
    return json.loads((WEIGHTS / detector / f"{name}.json").read_text())


def _rates(rates: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["quantity"], row["object"], row["indicator"]): row for row in rates}


def _is_low(row: dict[str, Any], rates: dict[tuple[str, str, str], dict[str, Any]]) -> bool:
    """Whether a row is the recall of a class and word that is below the bar, or whose precision is."""
    name, bar = row["object"], BARS["recall and precision"]
    precision = rates.get(("precision", name, row["indicator"]), row)["value"]
    return (
        row["quantity"] == "recall"
        and name != "all"
        and row["n"] >= FEWEST
        and min(row["value"], precision) < bar
    )


def _below(table: dict[str, Any]) -> list[str]:
    """Tags below the bar."""
    kinds = ("recall", "precision")
    return [
        tag
        for tag, row in table["by_tag"].items()
        if any(row[kind] is not None and row[kind] < BAR for kind in kinds)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = command_line.Parser(
        prog="python -m lab.train.detectors.page",
        description="Print the page on toyworld's detectors.",
    )
    return command_line.run(lambda _: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())
