"""Agreement of an audit's estimates with the checker: vectors and areas under the ROC curve, with intervals.

The unit is the context: intervals are percentiles over contexts drawn again and again, the same ones for every
estimate, so that two estimates are compared on the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.methods.gep import scores
from analysis.methods.gep.evaluation import agreements
from analysis.methods.gep.scores import Audit
from analysis.stats.resampling import resample_counts
from lab.validate.gep.readings import CHECKER, ESTIMATES, WORDS

RESAMPLES, LEVEL = 2000, 0.95
MEASURES = ("tau", "mcc", "pearson", "auc")
PAIRS = (("CC", "C"), ("CLS", "C"))


def estimate_agreement(audits: Mapping[str, Audit], *, resamples: int = RESAMPLES, seed: int = 0) -> dict:
    """How each estimate of one setting follows the checker; `audits` by source.

    ``agreement``: by estimate and measure value and interval, ``auc`` being the mean over attributes; ``differences``:
    the same of one estimate less another, as ``CLS - C``; ``auc``: by estimate and attribute.
    """
    counts = resample_counts(len(audits[CHECKER].contexts), resamples, seed).astype(float)
    draws = np.vstack([np.ones(counts.shape[1]), counts])  # the audit as it is comes first
    vectors = {source: _vectors(one, draws) for source, one in audits.items()}
    areas = {name: context_areas(audits[name], audits[CHECKER]) for name in ESTIMATES}
    drawn = {name: _measures(vectors[name], vectors[CHECKER], areas[name].of(draws)) for name in ESTIMATES}
    names = audits[CHECKER].attributes
    return {
        "agreement": {
            name: {measure: ends(drawn[name][measure]) for measure in MEASURES} for name in ESTIMATES
        },
        "differences": {
            f"{better} - {worse}": {
                measure: ends(drawn[better][measure] - drawn[worse][measure]) for measure in MEASURES
            }
            for better, worse in PAIRS
        },
        "auc": {
            name: {
                attribute: ends(column)
                for attribute, column in zip(names, areas[name].of(draws).T)
                if np.isfinite(column[0])
            }
            for name in ESTIMATES
        },
    }


def _vectors(one: Audit, draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vector over drawn contexts, shape (n_draws, n_attributes)."""
    each = scores.by_context(one, *WORDS)
    there = ~np.isnan(each)
    with np.errstate(invalid="ignore", divide="ignore"):
        return draws @ np.where(there, each, 0.0) / (draws @ there)


def _measures(
    estimated: NDArray[np.float64], labelled: NDArray[np.float64], areas: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    tau, mcc, pearson, _ = agreements(estimated, labelled)
    known = np.isfinite(areas)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, areas, 0.0).sum(axis=1) / known.sum(axis=1)
    return {"tau": tau, "mcc": mcc, "pearson": pearson, "auc": mean}


def ends(values: NDArray[np.float64], level: float = LEVEL) -> list[float]:
    """Return the first of some values, and the ends of the interval that the others make; NaN where few are known."""
    rest = values[1:][np.isfinite(values[1:])]
    if len(rest) < 0.95 * (len(values) - 1) or not len(rest):
        return [float(values[0]), np.nan, np.nan]
    return [float(values[0]), *(float(end) for end in np.quantile(rest, [(1 - level) / 2, (1 + level) / 2]))]


@dataclass(frozen=True)
class ContextAreas:
    """What areas under the ROC curve over any number of contexts of each are made of.

    ``wins`` (n_attributes, n_contexts, n_contexts) counts pairs of an image of one context that has the attribute and
    one of another that has not, in which the first has the higher value, ties for half; ``there`` and ``absent``
    (n_attributes, n_contexts) count images with and without the attribute.
    """

    wins: NDArray[np.float64]
    there: NDArray[np.float64]
    absent: NDArray[np.float64]

    def of(self, draws: NDArray[np.float64]) -> NDArray[np.float64]:
        """Areas where each context counts so often, shape (n_draws, n_attributes); `draws` (n_draws, n_contexts)."""
        won = np.einsum("dc,ack,dk->da", draws, self.wins, draws, optimize=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return won / ((draws @ self.there.T) * (draws @ self.absent.T))


def context_areas(estimate: Audit, labels: Audit) -> ContextAreas:
    """Return the areas of an estimate against labels of the same images; images that were not read are left out."""
    shape = (len(labels.attributes), len(labels.contexts))
    wins, there, absent = np.zeros((*shape, shape[1])), np.zeros(shape), np.zeros(shape)
    context = np.broadcast_to(np.arange(shape[1])[:, None, None], labels.values.shape[:3]).ravel()
    every = np.eye(shape[1])
    for number in range(shape[0]):
        values, truth = estimate.values[..., number].ravel(), labels.values[..., number].ravel()
        known = ~(np.isnan(values) | np.isnan(truth))
        has, lacks = known & (truth > 0.5), known & (truth <= 0.5)
        order = np.subtract.outer(values[has], values[lacks])
        wins[number] = every[context[has]].T @ ((np.sign(order) + 1) / 2) @ every[context[lacks]]
        there[number] = np.bincount(context[has], minlength=shape[1])
        absent[number] = np.bincount(context[lacks], minlength=shape[1])
    return ContextAreas(wins, there, absent)
