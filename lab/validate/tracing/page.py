"""The page docs/validation/tracing.md, in Markdown, from the numbers of `lab.validate.tracing.ranking`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.tracing.localisation import Localisation, localisation, true_ranks
from analysis.stats.shares import shares
from lab.templates import render
from lab.train.located.page import is_control, measured_quality
from lab.validate.tracing.methods import METHODS, PlaceScores
from lab.validate.tracing.ranking import DONOR, RECIPIENT, from_json
from probes.toyworld.located.truth import LocatedModel, located_models

RESAMPLES, SEED, LEVEL = 1000, 0, 0.95
ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
NOTHING = 1e-6  # a score below it is none: what rounding leaves
LABELS = {method.name: method.label for method in METHODS} | {"probe": "probe separability"}


def page(results: Mapping[str, Any], covered: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the page.

    Parameters
    ----------
    results : mapping
        By benchmark model, of `lab.validate.tracing.ranking.rank`.
    covered : sequence of mapping
        Rows of `lab.validate.tracing.coverage.coverage`.
    """
    some = next(iter(results.values()))
    names = _names(results)
    positions = _positions(results)
    return render(
        "tracing",
        prompts=some["prompts"],
        steps=some["steps"],
        recipient=RECIPIENT,
        donor=DONOR,
        nothing=NOTHING,
        labels=[LABELS[name] for name in names],
        models=[_model(name, result) for name, result in results.items()],
        ranks=[
            (
                _model(model.name, result),
                [_rank(from_json(result["methods"][name]), model) for name in names],
            )
            for model, result in located(results, controls=True)
        ],
        worth=[_worth(name, list(located(results))) for name in names],
        nowhere=[
            (_model(name, result), [_largest(from_json(result["methods"][method])) for method in names])
            for name, result in results.items()
            if not located_models()[name].sites
        ],
        positions=[(name, _shares(scores)) for name, scores in positions],
        position_names=[place for _, scores in positions[:1] for place in scores.places],
        covered=covered,
    )


def total(result: Mapping[str, Any]) -> tuple[float, float]:
    """Mean change of the verdict by the word itself, and its standard error over prompts."""
    totals = np.array(result["methods"]["keys_values"]["totals"])
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(len(totals)))


def control(name: str) -> bool:
    """Return whether a benchmark model's published total effect is below half of toyworld's."""
    return is_control(measured_quality(name), measured_quality())


def located(
    results: Mapping[str, Any], controls: bool = False
) -> Iterator[tuple[LocatedModel, Mapping[str, Any]]]:
    """Benchmark models whose word enters at cross-attentions and has an effect; those kept as controls on request."""
    for name, result in results.items():
        model = located_models()[name]
        mean, error = total(result)
        if model.sites and mean > 2 * error and (controls or not control(name)):
            yield model, result


def _truth(model: LocatedModel, places: Sequence[Any]) -> NDArray[np.bool_]:
    return np.array([place in model.sites for place in places])


def _found(scores: PlaceScores, model: LocatedModel) -> Localisation:
    return localisation(np.abs(scores.by_place()), _truth(model, scores.places))


def resampled(scores: PlaceScores) -> NDArray[np.float64]:
    """Scores of all places in resamples of the prompts, shape (resamples, places)."""
    number = len(scores.values)
    return np.abs(scores.by_place(np.random.default_rng(SEED).integers(0, number, (RESAMPLES, number))))


def _model(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tables say of a model: where the word enters, and its total effect."""
    model, (mean, error) = located_models()[name], total(result)
    return {
        "name": name,
        "control": control(name),
        "sites": model.sites,
        "total": mean,
        "error": error,
    }


def _rank(scores: PlaceScores, model: LocatedModel) -> dict[str, float]:
    """Return the rank and the score of the true site, and the range of the rank over resampled prompts."""
    truth = _truth(model, scores.places)
    low, high = np.quantile(true_ranks(resampled(scores), truth), ENDS)
    here = np.abs(scores.by_place())[truth].max()
    return {"rank": _found(scores, model).rank, "score": here, "low": low, "high": high}


def _names(results: Mapping[str, Any]) -> list[str]:
    there = set.intersection(*(set(result["methods"]) for result in results.values()))
    return [name for name in LABELS if name in there]


def _worth(name: str, chosen: Sequence[tuple[LocatedModel, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return how well a method finds the true site, over models."""
    scores = [from_json(result["methods"][name]) for _, result in chosen]
    found = [_found(one, model) for one, (model, _) in zip(scores, chosen, strict=True)]
    low, high = np.quantile(np.mean([1 / ranks for ranks in _resampled_ranks(name, chosen)], axis=0), ENDS)
    off = [one.leakage / np.abs(score.by_place()).max() for one, score in zip(found, scores, strict=True)]
    return {
        "label": LABELS[name],
        "hits": sum(one.hit for one in found),
        "n": len(found),
        "mrr": _mean("reciprocal_rank", found),
        "low": low,
        "high": high,
        "recall": _mean("recall", found),
        "auroc": _mean("auroc", found),
        "off": float(np.mean(off)),
    }


def _resampled_ranks(
    name: str, chosen: Sequence[tuple[LocatedModel, Mapping[str, Any]]]
) -> Iterator[NDArray[np.int64]]:
    """Of each benchmark model the rank of the true site in each resample."""
    for model, result in chosen:
        scores = from_json(result["methods"][name])
        yield true_ranks(resampled(scores), _truth(model, scores.places))


def _mean(name: str, found: Sequence[Localisation]) -> float:
    return float(np.mean([getattr(one, name) for one in found]))


def _largest(scores: PlaceScores) -> tuple[str, float]:
    """Return the place with the largest score, and the score."""
    values = np.abs(scores.by_place())
    return str(scores.places[int(values.argmax())]), values.max()


def _shares(scores: PlaceScores) -> list[dict[str, float]]:
    """Return the share of each place, with its interval over prompts."""
    rows = []
    for place in range(scores.values.shape[1]):
        found = shares(scores.values[:, [place]], scores.totals, level=LEVEL)
        rows.append({name: getattr(found, name)[0] for name in ("share", "low", "high")})
    return rows


def _positions(results: Mapping[str, Any]) -> list[tuple[str, PlaceScores]]:
    """Return scores by token position of models that decide somewhere."""
    return [
        (name, from_json(result["positions"]))
        for name, result in results.items()
        if located_models()[name].sites and total(result)[0] > 2 * total(result)[1]
    ]
