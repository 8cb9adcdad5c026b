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
from lab.train.detectors.tagger_quality import BAR, NOISE
from probes import command_line
from probes.toyworld import WEIGHTS

BARS = {"mask IoU": 0.80, "AP50": 0.85, "recall and precision": 0.85}
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
    return render(
        "detectors",
        bars=BARS,
        indicators=INDICATORS,
        history={name: _read(name, "recipe")["history"] for name in FOLDERS},
        sam=sam,
        dino=dino,
        found={what: _rates(dino[f"generated_{name}"]["rates"]) for name, what in FOUND.items()},
        box_threshold=BOX_THRESHOLD,
        own_nms=OWN_NMS,
        ram=ram,
        tagged=TAGGED,
        bar=BAR,
        below={name: _below(ram[name]) for name in TAGGED},
        noise=NOISE,
    )


def _read(detector: str, name: str) -> dict[str, Any]:
    return json.loads((WEIGHTS / detector / f"{name}.json").read_text())


def _rates(rates: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["quantity"], row["object"], row["indicator"]): row for row in rates}


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
