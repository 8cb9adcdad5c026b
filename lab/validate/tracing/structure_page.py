"""The page docs/validation/structures.md, from `lab.validate.tracing.structure_scores` and certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.tracing.localisation import localisation
from analysis.stats.shares import shares
from lab.templates import render
from lab.validate.tracing.certificates import name_of, subsets
from lab.validate.tracing.choice_page import section
from lab.validate.tracing.structure_scores import LABELS, SIGNED
from probes.toyworld.structures.truth import CausalStructure, structures

RESAMPLES, SEED, LEVEL = 1000, 0, 0.95
ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
Result = Mapping[str, Any]


def page(results: Mapping[str, Result], choice: Mapping[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    results : mapping
        By structure, what `lab.validate.tracing.structures` stores.
    choice : mapping
        What `lab.validate.tracing.choice` stores; empty where it has stored nothing.
    """
    some = next(iter(results.values()))
    found = {
        name: {method: _resampled(name, result, method) for method in LABELS}
        for name, result in results.items()
    }
    overall = {method: np.mean([found[name][method] for name in results], axis=0) for method in LABELS}
    return render(
        "structures",
        prompts=some["prompts"],
        seeds=some["seeds"],
        steps=some["steps"],
        resamples=RESAMPLES,
        models=[_model(structures()[name]) for name in structures()],
        subsets=[_subsets(structures()[name]) for name in structures()],
        labels=list(LABELS.values()),
        rows=[(name, [_cell(found[name][method]) for method in LABELS]) for name in results],
        overall=[_cell(overall[method]) for method in LABELS],
        recall=[(name, [_recall(name, results[name], method) for method in LABELS]) for name in results],
        told=_told_apart(overall),
        pairs=len(LABELS) * (len(LABELS) - 1) // 2,
        directions=_directions(results),
        paths=[row for name, result in results.items() for row in _paths(name, result)],
        choice=section(choice),
    )


def true_places(name: str, result: Result) -> NDArray[np.bool_]:
    """Return which of the cross-attentions have a part in a structure, ``(sites,)``."""
    return np.array([site in structures()[name].sites for site in result["sites"]])


def _resampled(name: str, result: Result, method: str) -> NDArray[np.float64]:
    """The AUROC over all prompts, then in each resample of the prompts; the same resamples for every method."""
    values, truth = np.array(result["methods"][method], float), true_places(name, result)
    number = int(result["prompts"])
    chosen = np.random.default_rng(SEED).integers(0, number, (RESAMPLES, number))
    means = [values.mean(0)] + [values[draws if len(values) > 1 else [0]].mean(0) for draws in chosen]
    return np.array([localisation(np.abs(one), truth).auroc for one in means])


def _cell(values: NDArray[np.float64]) -> dict[str, float]:
    low, high = np.quantile(values[1:], ENDS)
    return {"auroc": values[0], "low": low, "high": high}


def _recall(name: str, result: Result, method: str) -> str:
    truth = true_places(name, result)
    values = np.abs(np.array(result["methods"][method], float).mean(0))
    return f"{localisation(values, truth).recall * truth.sum():.0f} of {truth.sum()}"


def _told_apart(overall: Mapping[str, NDArray[np.float64]]) -> list[dict[str, Any]]:
    """Return the pairs of methods whose mean AUROC differs, by p-values of the bootstrap over prompts."""
    rows = []
    for first, second in combinations(LABELS, 2):
        apart = overall[first] - overall[second]
        better, worse = (first, second) if apart[0] >= 0 else (second, first)
        against = np.mean(np.sign(apart[0]) * apart[1:] <= 0)
        p = min(1.0, 2 * (RESAMPLES * against + 1) / (RESAMPLES + 1))
        if p < 1 - LEVEL:
            low, high = np.quantile(np.sign(apart[0]) * apart[1:], ENDS)
            rows.append(
                {
                    "better": LABELS[better],
                    "worse": LABELS[worse],
                    "apart": abs(apart[0]),
                    "low": low,
                    "high": high,
                    "p": p,
                }
            )
    return sorted(rows, key=lambda row: -row["apart"])


def _directions(results: Mapping[str, Result]) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return what methods with a sign say of the places that oppose each other."""
    rows = []
    for name, result in results.items():
        if structures()[name].kind == "opposing":
            places = [result["sites"].index(site) for site in structures()[name].sites]
            for method in SIGNED:
                mean = np.array(result["methods"][method], float).mean(0)
                rows.append((LABELS[method], [(result["sites"][one], mean[one]) for one in places]))
    return rows


def _paths(name: str, result: Result) -> list[dict[str, Any]]:
    """Return what each place does alone, and with a later one held at the neutral word."""
    rows = []
    for pair, stored in result["paths"].items():
        alone, held = np.array(stored, float).T
        rows.append(
            {
                "name": name,
                "pair": pair.split(" > "),
                "alone": alone.mean(),
                "held": held.mean(),
                "through": shares((alone - held)[:, None], alone, level=LEVEL),
            }
        )
    return rows


def _model(structure: CausalStructure) -> dict[str, Any]:
    total = structure.certificate()["total"]
    return {
        "name": structure.name,
        "kind": structure.kind,
        "sites": structure.sites,
        "total": total["mean"],
        "error": total["se"],
    }


def _subsets(structure: CausalStructure) -> dict[str, Any]:
    """Return what sets of places do, as shares of the total effect where there is one, by the number of places."""
    found, number = structure.certificate(), len(structure.places)
    whole = found["total"]["mean"] if structure.kind != "opposing" else 1.0
    by_size: Sequence[Sequence[tuple[int, ...]]] = [
        [some for some in subsets(number) if len(some) == size] for size in range(1, number + 1)
    ]
    if number > 2:
        sets = [(f"{size} of {number}, mean", some) for size, some in enumerate(by_size, 1)]
    else:
        sets = [
            (" and ".join(str(1 + place) for place in some), [some]) for sized in by_size for some in sized
        ]
    return {
        "name": structure.name,
        "absolute": structure.kind == "opposing",
        "sets": [
            (label, *(_share(found[name], some, whole) for name in ("sufficiency", "necessity")))
            for label, some in sets
        ],
    }


def _share(effects: Mapping[str, Any], some: Sequence[tuple[int, ...]], whole: float) -> float:
    share = float(np.mean([effects[name_of(one)]["mean"] for one in some])) / whole
    return share if abs(share) >= 0.005 else 0.0  # of two digits, none of them a negative nothing
