"""The section on diffusion transformers of the page on toyworld, from what was measured (`lab.pages.toyworld`)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lab.templates import render
from probes.toyworld import WEIGHTS
from probes.toyworld.pipelines import TEACHERS

NEAR = 0.05
LEANING = ("dress", "tie")  # of the feminine mixture, and of the masculine one


def transformers_section(folder: Path = WEIGHTS) -> str:
    """Return the section in Markdown, from what was measured of each and of its U-Net."""
    rows = [
        {
            "name": name,
            "measured": _read(folder / name / "quality.json"),
            "teacher": _read(folder / teacher / "quality.json"),
        }
        for name, teacher in TEACHERS.items()
    ]
    for row in rows:
        row["cells"] = cells_against(row["measured"], row["teacher"])
        row["lean"] = [
            cell
            for thing in LEANING
            for cell in row["cells"]
            if cell["thing"] == thing and cell["group"] == "neutral"
        ]
        row["near"] = np.mean([cell["away"] <= NEAR for cell in row["cells"]])
        row["teacher_near"] = np.mean([cell["teacher_away"] <= NEAR for cell in row["cells"]])
    files = [path for name in TEACHERS for path in (folder / name).rglob("*.safetensors")]
    return render("toyworld_dit", rows=rows, size=sum(path.stat().st_size for path in files) / 1e6)


def cells_against(measured: dict[str, Any], teacher: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each frequency of what is not named, with how far it and its U-Net's are from what was planted."""
    drawn = {(cell["group"], cell["thing"]): cell["drawn"] for cell in teacher["cells"]}
    return [
        {
            **cell,
            "teacher": drawn[cell["group"], cell["thing"]],
            "away": abs(cell["drawn"] - cell["planted"]),
            "teacher_away": abs(drawn[cell["group"], cell["thing"]] - cell["planted"]),
        }
        for cell in measured["cells"]
    ]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())
