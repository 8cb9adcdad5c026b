"""Sections on located and wired benchmark models of the page on toyworld, as measured (`lab.pages.toyworld`)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from analysis.stats.shares import shares
from lab.templates import render
from lab.validate.tracing.choice_page import LEVEL, SWAPS
from lab.validate.tracing.choice_swaps import effects
from probes.toyworld import TRANSFORMERS, WEIGHTS
from probes.toyworld.dit.truth import REST, WiredModel, wired_models
from probes.toyworld.located.truth import TIMES, LocatedModel, located_models

REFERENCE = "toyworld"


def located_section(folder: Path = WEIGHTS / "located") -> str:
    """Return the section in Markdown, from ``quality.json`` of each model and of `toyworld`."""
    reference = _quality(folder, REFERENCE)
    models = {REFERENCE: None, **located_models()}
    rows = [_row(folder, name, model, reference) for name, model in models.items()]
    return render("toyworld_located", reference=reference, rows=rows)


def wired_section(folder: Path = WEIGHTS / "wired") -> str:
    """Return the section on wired transformers, from ``quality.json`` of each and of `toyworld-dit`."""
    base, models = TRANSFORMERS[0], wired_models()
    reference = _quality(folder, base)
    rows = []
    for name in (base, *models):
        measured, model = _quality(folder, name), models.get(name)
        used_as = "control" if is_control(measured, reference) else "benchmark model"
        rows.append(
            {
                "name": name,
                "place": _entrance(model) if model else "not by wiring",
                "gain": f"{model.gain:g}" if model else "–",
                "effect": measured["total_effect"],
                "neutral": measured["means"]["neutral"],
                "used_as": used_as if model else "reference",
            }
        )
    choices = [_choice(folder, model) for model in models.values() if model.chooses]
    return render("toyworld_wired", reference=reference, rows=rows, choices=choices)


def _entrance(model: WiredModel) -> str:
    """Return where the word enters a transformer, in a cell of the table."""
    where = " and ".join(f"`{site}`" for site in model.sites) or "nowhere"
    if model.chooses:
        return f"{where}; of a neutral word chosen at `{model.chooses}`"
    return f"{where}, all tokens but the word's" if model.positions == REST else where


def _choice(folder: Path, model: WiredModel) -> dict[str, Any]:
    """Return what the certificate of a model that chooses says, for the template."""
    stored = model.certificate()
    recipe = json.loads((folder / model.name / "recipe.json").read_text(encoding="utf-8"))
    verdicts = {
        name: np.array([[one[name]["feminine"], one[name]["masculine"]] for one in stored["noises"]])
        for name in ("verdicts", "choosing head")
    }
    total, moved = effects(np.stack([*verdicts.values()], 1), stored["pairs"])
    swaps, mean = stored["swaps"], stored["total"]["mean"]
    sites = [*swaps["values"]]
    return {
        "stored": stored,
        "auc": recipe["auc_held_out"],
        "place": model.chooses,
        "shown": model.sites[0],
        "head": shares(moved, total, level=LEVEL),
        "showing": next(iter(swaps["showing place"].values()))["mean"] / mean,
        "others": next(iter(swaps["text keys and values, other blocks"].values()))["mean"] / mean,
        "sites": sites,
        "rows": [
            (name, [swaps[name][site]["mean"] / mean if site in swaps[name] else None for site in sites])
            for name in SWAPS
            if name in swaps
        ],
    }


def is_control(measured: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Return whether a benchmark model's total effect is below half of the reference's."""
    return measured["total_effect"]["mean"] < reference["total_effect"]["mean"] / 2


def measured_quality(name: str = REFERENCE, folder: Path = WEIGHTS / "located") -> dict[str, Any]:
    """Return what is published with a located benchmark model, or with `toyworld`, measured in the same way."""
    return _quality(folder, name)


def _quality(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name / "quality.json").read_text())


def _row(folder: Path, name: str, model: LocatedModel | None, reference: dict[str, Any]) -> dict[str, Any]:
    measured, stored = _quality(folder, name), folder / name / "delta.safetensors"
    control = is_control(measured, reference)
    return {
        "name": name,
        "place": "not by wiring" if model is None else _place(model),
        "effect": measured["total_effect"],
        "neutral": measured["means"]["neutral"],
        "nouns": measured["nouns_mean"],
        "size": stored.stat().st_size / 1000 if stored.exists() else None,
        "used_as": "reference" if model is None else "control" if control else "benchmark model",
    }


def _place(model: LocatedModel) -> str:
    """Return where the word enters, in a cell of the table."""
    if not model.sites:
        return "nowhere"
    places = {wire.site: wire for wire in model.wires}
    texts = []
    for site in model.sites:
        text, wire = f"`{site}`", places.get(site)
        if wire is not None and len(wire.heads) == 1:
            text += f", head {wire.heads[0]}"
        if wire is not None and wire.times != TIMES:
            text += f", timesteps {wire.times[0]} to {wire.times[1] - 1}"
        if wire is not None and wire.shows != "all":
            text += {"figure": ": what the figure wears", "rest": ": things and place"}[wire.shows]
        texts.append(text)
    return "; ".join(texts)
