"""What the page docs/validation/tracing.md shows of the numbers of `lab.validate.tracing.ranking`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.methods.tracing.benchmark import localisation
from analysis.stats.shares import shares
from lab.validate.tracing.certificates import name_of, subsets
from lab.validate.tracing.methods import METHODS, PlaceScores
from lab.validate.tracing.ranking import DONOR, RECIPIENT, STRUCTURE_METHODS, from_json
from probes.toyworld.places import KnownPlaces, known_places

LEVEL = 0.95
NOTHING = 1e-6  # a score below it is none: what rounding leaves
LABELS = {name: label for name, (label, _) in METHODS.items()} | {"probe": "probe separability"}
Result = Mapping[str, Any]


def values(stored: Mapping[str, Result]) -> dict[str, Any]:
    """What the page shows of the numbers that `lab.validate.tracing` stores of each benchmark model."""
    results = {name: one for name, one in stored.items() if name in known_places("located")}
    several = {name: one for name, one in stored.items() if name in known_places("structures")}
    some, one_of_several = next(iter(results.values())), next(iter(several.values()))
    models = [_model(name, result) for name, result in results.items()]
    positions = [
        (one["name"], from_json(results[one["name"]]["positions"])) for one in models if one["sites"]
    ]
    return {
        "prompts": some["prompts"],
        "steps": some["steps"],
        "recipient": RECIPIENT,
        "donor": DONOR,
        "models": models,
        "found": [
            (
                label,
                [
                    _found(from_json(result["methods"][name]), model["sites"])
                    for model, result in zip(models, results.values())
                ],
            )
            for name, label in LABELS.items()
        ],
        "nothing": NOTHING,
        "positions": [(name, _shares(scores)) for name, scores in positions],
        "position_names": [place for _, scores in positions[:1] for place in scores.places],
        "asked": one_of_several,
        "structures": [_structure(one) for one in known_places("structures").values()],
        "structure_labels": list(STRUCTURE_METHODS.values()),
        "recall": [
            (name, [_recall(known_places("structures")[name], result, one) for one in STRUCTURE_METHODS])
            for name, result in several.items()
        ],
    }


def total(result: Result) -> tuple[float, float]:
    """Mean change of the verdict by the word itself, and its standard error over prompts."""
    totals = np.array(result["methods"]["keys_values"]["totals"])
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(len(totals)))


def _model(name: str, result: Result) -> dict[str, Any]:
    """Where the word enters in a model, and its total effect."""
    mean, error = total(result)
    return {"name": name, "sites": known_places("located")[name].sites, "total": mean, "error": error}


def _found(scores: PlaceScores, sites: Sequence[str]) -> dict[str, float]:
    """The rank of the true site, its score, and the largest score elsewhere over the largest of all."""
    scored = np.abs(scores.by_place())
    true = np.array([place in sites for place in scores.places])
    if not true.any():
        return {"largest": scored.max()}
    rank = localisation(scored, true).rank
    return {"rank": rank, "score": scored[true].max(), "elsewhere": scored[~true].max() / scored.max()}


def _shares(scores: PlaceScores) -> list[dict[str, float]]:
    """The share of each place, with its interval over prompts."""
    rows = []
    for place in range(scores.values.shape[1]):
        found = shares(scores.values[:, [place]], scores.totals, level=LEVEL)
        rows.append({name: getattr(found, name)[0] for name in ("share", "low", "high")})
    return rows


def _recall(structure: KnownPlaces, result: Result, method: str) -> str:
    """How many of a structure's places are among as many best ones, and the AUROC."""
    truth = np.array([site in structure.sites for site in result["sites"]])
    found = localisation(np.abs(np.array(result["methods"][method], float).mean(0)), truth)
    return f"{found.recall * truth.sum():.0f} of {truth.sum()} ({found.auroc:.2f})"


def _structure(structure: KnownPlaces) -> dict[str, Any]:
    """Places, total effect and what sets of places do, as shares of the total effect where there is one."""
    stored = structure.certificate()
    absolute = structure.kind == "opposing"
    whole = 1.0 if absolute else stored["total"]["mean"]
    sets = [
        (
            " and ".join(str(1 + place) for place in some),
            *(_share(stored[name], some, whole) for name in ("sufficiency", "necessity")),
        )
        for some in subsets(len(structure.places))
    ]
    return {"name": structure.name, "sites": structure.sites, **stored["total"], "sets": sets}


def _share(effects: Mapping[str, Any], some: tuple[int, ...], whole: float) -> float:
    share = float(effects[name_of(some)]["mean"]) / whole
    return share if abs(share) >= 0.005 else 0.0  # of two digits, none of them a negative nothing
