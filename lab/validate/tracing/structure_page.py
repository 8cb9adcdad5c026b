"""The page docs/validation/structures.md, from `lab.validate.tracing.structure_scores` and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.tracing.localisation import localisation
from lab.templates import render
from lab.validate.tracing.certificates import name_of, subsets
from lab.validate.tracing.structure_scores import LABELS, SIGNED
from probes.toyworld.structures.truth import CausalStructure, structures

RESAMPLES, SEED, LEVEL = 1000, 0, 0.95
ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
Result = Mapping[str, Any]


def page(results: Mapping[str, Result]) -> str:
    """Return the page.

    Parameters
    ----------
    results : mapping
        By structure, what `lab.validate.tracing.structures` stores.
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
        directions=_directions(results),
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
    """Return what sets of places do, as shares of the total effect where there is one."""
    found = structure.certificate()
    whole = found["total"]["mean"] if structure.kind != "opposing" else 1.0
    return {
        "name": structure.name,
        "absolute": structure.kind == "opposing",
        "sets": [
            (
                " and ".join(str(1 + place) for place in some),
                *(_share(found[name], some, whole) for name in ("sufficiency", "necessity")),
            )
            for some in subsets(len(structure.places))
        ],
    }


def _share(effects: Mapping[str, Any], some: tuple[int, ...], whole: float) -> float:
    share = float(effects[name_of(some)]["mean"]) / whole
    return share if abs(share) >= 0.005 else 0.0  # of two digits, none of them a negative nothing
