"""Sections on located and wired benchmark models of the page on toyworld, as measured (`lab.pages.toyworld`)."""

import json
from pathlib import Path
from typing import Any

from lab.templates import render
from probes.toyworld import TRANSFORMERS, WEIGHTS
from probes.toyworld.places import KnownPlaces, known_places

REFERENCE = "toyworld"


def located_section(folder: Path = WEIGHTS / "located") -> str:
    """Return the section in Markdown, from ``quality.json`` of each model and of `toyworld`."""
    reference = _quality(folder, REFERENCE)
    models = {REFERENCE: None, **known_places("located")}
    rows = [_row(folder, name, model, reference) for name, model in models.items()]
    return render("toyworld_located", reference=reference, rows=rows)


def wired_section(folder: Path = WEIGHTS / "wired") -> str:
    """Return the section on wired transformers, from ``quality.json`` of each and of `toyworld-dit`."""
    base, models = TRANSFORMERS[0], known_places("wired")
    reference = _quality(folder, base)
    rows = []
    for name in (base, *models):
        measured, model = _quality(folder, name), models.get(name)
        used_as = "control" if is_control(measured, reference) else "benchmark model"
        rows.append(
            {
                "name": name,
                "place": " and ".join(f"`{site}`" for site in model.sites) if model else "not by wiring",
                "gain": f"{model.gain:g}" if model else "–",
                "effect": measured["total_effect"],
                "neutral": measured["means"]["neutral"],
                "used_as": used_as if model else "reference",
            }
        )
    return render("toyworld_wired", reference=reference, rows=rows)


def is_control(measured: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Return whether a benchmark model's total effect is below half of the reference's."""
    return measured["total_effect"]["mean"] < reference["total_effect"]["mean"] / 2


def measured_quality(name: str = REFERENCE, folder: Path = WEIGHTS / "located") -> dict[str, Any]:
    """Return what is published with a located benchmark model, or with `toyworld`, measured in the same way."""
    return _quality(folder, name)


def _quality(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name / "quality.json").read_text())


def _row(folder: Path, name: str, model: KnownPlaces | None, reference: dict[str, Any]) -> dict[str, Any]:
    measured, stored = _quality(folder, name), folder / name / "delta.safetensors"
    control = is_control(measured, reference)
    return {
        "name": name,
        "place": _place(model),
        "effect": measured["total_effect"],
        "neutral": measured["means"]["neutral"],
        "nouns": measured["nouns_mean"],
        "size": stored.stat().st_size / 1000 if stored.exists() else None,
        "used_as": "reference" if model is None else "control" if control else "benchmark model",
    }


def _place(model: KnownPlaces | None) -> str:
    """Return where the word enters, in a cell of the table."""
    if model is None:
        return "not by wiring"
    return "; ".join(f"`{site}`" for site in model.sites) or "nowhere"
