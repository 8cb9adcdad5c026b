"""The page docs/validation/tracing.md, in Markdown, from the numbers of `lab.validate.tracing.ranking`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.tracing.benchmark import Localisation, localisation
from analysis.stats.shares import shares
from lab.templates import render
from lab.train.located.page import is_control, measured_quality
from lab.validate.tracing.certificates import name_of, subsets
from lab.validate.tracing.methods import METHODS, PlaceScores
from lab.validate.tracing.ranking import DONOR, RECIPIENT, STRUCTURE_METHODS, from_json
from probes.toyworld.places import KnownPlaces, known_places

RESAMPLES, SEED, LEVEL = 1000, 0, 0.95
ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
NOTHING = 1e-6  # a score below it is none: what rounding leaves
LABELS = {name: label for name, (label, _) in METHODS.items()} | {"probe": "probe separability"}
Result = Mapping[str, Any]


def page(stored: Mapping[str, Result]) -> str:
    """The page, from what `lab.validate.tracing` stores of each benchmark model."""
    results = {name: one for name, one in stored.items() if name in known_places("located")}
    several = {name: one for name, one in stored.items() if name in known_places("structures")}
    some, one_of_several = next(iter(results.values())), next(iter(several.values()))
    positions = [
        (name, from_json(result["positions"]))
        for name, result in results.items()
        if known_places("located")[name].sites and total(result)[0] > 2 * total(result)[1]
    ]
    return render(
        "tracing",
        prompts=some["prompts"],
        steps=some["steps"],
        recipient=RECIPIENT,
        donor=DONOR,
        nothing=NOTHING,
        labels=list(LABELS.values()),
        models=[_model(name, result) for name, result in results.items()],
        ranks=[
            (
                _model(model.name, result),
                [_rank(from_json(result["methods"][name]), model) for name in LABELS],
            )
            for model, result in located(results, controls=True)
        ],
        worth=[_worth(name, list(located(results))) for name in LABELS],
        nowhere=[
            (_model(name, result), [_largest(from_json(result["methods"][method])) for method in LABELS])
            for name, result in results.items()
            if not known_places("located")[name].sites
        ],
        positions=[(name, _shares(scores)) for name, scores in positions],
        position_names=[place for _, scores in positions[:1] for place in scores.places],
        asked=one_of_several,
        structures=[_structure(one) for one in known_places("structures").values()],
        structure_labels=list(STRUCTURE_METHODS.values()),
        recall=[
            (
                name,
                [_recall(known_places("structures")[name], result, method) for method in STRUCTURE_METHODS],
            )
            for name, result in several.items()
        ],
    )


def total(result: Result) -> tuple[float, float]:
    """Mean change of the verdict by the word itself, and its standard error over prompts."""
    totals = np.array(result["methods"]["keys_values"]["totals"])
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(len(totals)))


def control(name: str) -> bool:
    """Whether a benchmark model's published total effect is below half of toyworld's."""
    return is_control(measured_quality(name), measured_quality())


def located(results: Mapping[str, Result], controls: bool = False) -> Iterator[tuple[KnownPlaces, Result]]:
    """Benchmark models whose word enters at cross-attentions and has an effect; those kept as controls on request."""
    for name, result in results.items():
        model = known_places("located")[name]
        mean, error = total(result)
        if model.sites and mean > 2 * error and (controls or not control(name)):
            yield model, result


def _found(values: NDArray[np.float64], scores: PlaceScores, model: KnownPlaces) -> Localisation:
    return localisation(np.abs(values), [place in model.sites for place in scores.places])


def _resampled_ranks(scores: PlaceScores, model: KnownPlaces) -> NDArray[np.float64]:
    """The rank of the true site in resamples of the prompts."""
    number = len(scores.values)
    chosen = np.random.default_rng(SEED).integers(0, number, (RESAMPLES, number))
    return np.array([_found(one, scores, model).rank for one in scores.by_place(chosen)])


def _model(name: str, result: Result) -> dict[str, Any]:
    """Where the word enters in a model, and its total effect."""
    mean, error = total(result)
    sites = known_places("located")[name].sites
    return {"name": name, "control": control(name), "sites": sites, "total": mean, "error": error}


def _rank(scores: PlaceScores, model: KnownPlaces) -> dict[str, float]:
    """The rank and the score of the true site, and the range of the rank over resampled prompts."""
    low, high = np.quantile(_resampled_ranks(scores, model), ENDS)
    values = scores.by_place()
    here = np.abs(values)[[place in model.sites for place in scores.places]].max()
    return {"rank": _found(values, scores, model).rank, "score": here, "low": low, "high": high}


def _worth(name: str, chosen: Sequence[tuple[KnownPlaces, Result]]) -> dict[str, Any]:
    """Scores of a method over models."""
    pairs = [(from_json(result["methods"][name]), model) for model, result in chosen]
    found = [_found(scores.by_place(), scores, model) for scores, model in pairs]
    low, high = np.quantile(np.mean([1 / _resampled_ranks(*pair) for pair in pairs], axis=0), ENDS)
    off = [one.leakage / np.abs(scores.by_place()).max() for one, (scores, _) in zip(found, pairs)]
    means = {one: np.mean([getattr(each, one) for each in found]) for one in ("recall", "auroc")}
    return {
        "label": LABELS[name],
        "hits": sum(one.rank == 1 for one in found),
        "n": len(found),
        "mrr": np.mean([1 / one.rank for one in found]),
        **{"low": low, "high": high, "off": float(np.mean(off)), **means},
    }


def _largest(scores: PlaceScores) -> tuple[str, float]:
    """The place with the largest score, and the score."""
    values = np.abs(scores.by_place())
    return str(scores.places[int(values.argmax())]), values.max()


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
