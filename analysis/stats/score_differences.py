"""Mean absolute differences of several models, compared two by two over the units that they share, and their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.stats.estimated_score import estimated_score


@dataclass(frozen=True)
class ScoreDifferences:
    """Scores of several models, in the order given.

    Attributes
    ----------
    score, raw : ndarray of float64, shape (n_models,)
        Mean absolute difference less what errors add to it, and as it is (`estimated_score`).
    pairs : list of (int, int)
    difference, low, high : ndarray of float64, shape (n_pairs,)
        Score of the first of a pair less that of the second, with its interval.
    low_all, high_all : ndarray of float64, shape (n_pairs,)
        Ends of intervals that hold all differences at once with the same probability (Bonferroni).
    best, worst : ndarray of int64, shape (n_models,)
        Between these ranks (1: the smallest score) lies the model's own, of all models at once: one more than there are
        models whose score is smaller by these intervals, and as many as there are that are not larger.
    n : int
        Units.
    """

    score: NDArray[np.float64]
    raw: NDArray[np.float64]
    pairs: list[tuple[int, int]]
    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    low_all: NDArray[np.float64]
    high_all: NDArray[np.float64]
    best: NDArray[np.int64]
    worst: NDArray[np.int64]
    n: int


def score_differences(differences: Sequence[ArrayLike], *, level: float = 0.95) -> ScoreDifferences:
    r"""Compare the scores of models whose differences were measured in the same units.

    Parameters
    ----------
    differences : sequence of array_like of float, shape (n_units, n) each
        By model: of every unit (a context) the differences whose mean over units counts.
    level : float

    Raises
    ------
    ValueError
        Fewer than two models or units, other shapes, or a number is missing.

    Notes
    -----
    A unit adds :math:`u = \sum_a \mathrm{sign}(\hat v_a)\, v_a / n` to its model's raw score; the standard error of
    a difference is that of the mean of both models' :math:`u` less one another, which takes out what units have in
    common (Student's t). Intervals are wider by the doubt about what errors add: that of one model at its most, of the
    other at its least (`estimated_score`). Ranks follow from the intervals of all pairs (Mohamad et al. 2019).
    """
    values = [np.asarray(one, float) for one in differences]
    if len(values) < 2 or {one.shape for one in values} != {values[0].shape} or len(values[0]) < 2:
        raise ValueError("differences: expected at least two models and units, and one shape")
    if any(np.isnan(one).any() for one in values):
        raise ValueError("differences: expected numbers, got NaN")
    n, width = values[0].shape
    found = [
        estimated_score(one.mean(axis=0), np.atleast_2d(np.cov(one, rowvar=False)) / n) for one in values
    ]
    score, raw, least, most = np.array([(one.score, one.raw, one.least, one.most) for one in found]).T
    added = np.stack([(one * np.sign(one.mean(axis=0))).sum(axis=1) / width for one in values])
    pairs = list(combinations(range(len(values)), 2))
    i, j = np.array(pairs).T
    error = (added[i] - added[j]).std(axis=1, ddof=1) / np.sqrt(n)
    alpha = 1 - level
    ends = []
    for tail in (alpha / 2, alpha / 2 / len(pairs)):
        half = stats.t.isf(tail, n - 1) * error
        ends += [least[i] - most[j] - half, most[i] - least[j] + half]
    smaller = np.zeros((len(values), len(values)), bool)  # the first of a place than the second
    smaller[i, j], smaller[j, i] = ends[3] < 0, ends[2] > 0
    return ScoreDifferences(
        score=score,
        raw=raw,
        pairs=pairs,
        difference=score[i] - score[j],
        low=ends[0],
        high=ends[1],
        low_all=ends[2],
        high_all=ends[3],
        best=1 + smaller.sum(axis=0),
        worst=len(values) - smaller.sum(axis=1),
        n=n,
    )
