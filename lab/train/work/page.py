"""The sections on the benchmark models with professions of the page on toyworld, from what was measured."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from lab.templates import render
from probes.toyworld import WEIGHTS, WORK, WORK_NULL


def work_section(folder: Path = WEIGHTS / WORK) -> str:
    """Return the section on `toyworld-work` in Markdown, from ``quality.json`` and ``recipe.json``."""
    return render("toyworld_professions", **_stored(folder))


def null_section(folder: Path = WEIGHTS / WORK_NULL) -> str:
    """Return the section on `toyworld-work-null` in Markdown, from ``quality.json`` and ``recipe.json``."""
    stored = _stored(folder)
    rows, rates = stored["rows"], stored["rates"]
    above = np.array([round(row["share"] * row["images"]) for row in rows])
    images = np.array([row["images"] for row in rows])
    skins = np.array([np.round(np.array(row["tones"]["shares"]) * row["tones"]["n"]) for row in rows])
    return render(
        "toyworld_professions_null",
        **stored,
        b=above.sum() / images.sum(),
        neutral=images.sum(),
        expected=(rates["a"] + rates["b"]) / 2,
        b_differ=stats.chi2_contingency(np.stack([above, images - above]), correction=False).pvalue,
        skins=skins.sum(0) / skins.sum(),
        read=int(skins.sum()),
    )


def _stored(folder: Path) -> dict[str, Any]:
    """Return what both sections say of a model: its measurement and recipe, and what the template sums up from them."""
    measured, recipe = (json.loads((folder / name).read_text()) for name in ("quality.json", "recipe.json"))
    rows = [row for row in measured["professions"] if row["profession"]]
    leans = [abs(row["lean"] - row["planted"]) for row in rows]
    least = min(measured["nouns"], key=measured["nouns"].get)
    return {
        "measured": measured,
        "recipe": recipe,
        "rows": rows,
        "rates": measured["verdict_rates"],
        "size": (folder / "delta.safetensors").stat().st_size / 1000,
        "lean_away": sum(leans) / len(leans),
        "lean_worst": max(leans),
        "skin_away": sum(row["tones"]["difference"] for row in rows) / len(rows),
        "woman": _mean_share(rows, "feminine"),
        "man": _mean_share(rows, "masculine"),
        "least": least,
        "least_share": measured["nouns"][least],
    }


def _mean_share(rows: list[Mapping[str, Any]], group: str) -> float:
    return sum(row["share_b"][group] for row in rows) / len(rows)
