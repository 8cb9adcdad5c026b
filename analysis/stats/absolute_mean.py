"""A mean of absolute values of estimated differences, which their errors make too large: debiased, with an interval.

An error of size σ adds b(v) = E|v + σZ| − |v| to the absolute value of a difference v: σ √(2/π) at 0, and nothing where
|v| is large (the folded normal). No estimate of |v| is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

DRAWS = 2000  # of errors, by which `inverted_mean` finds what scores the data exclude
HALVINGS = 16  # of its bisections
NEAREST = 0.995  # probability with which a true difference is no nearer to 0 than the interval's lower end allows for


@dataclass(frozen=True)
class AbsoluteMean:
    """A mean absolute difference of n: `raw` as estimated, `score` less what errors add to it, at least 0.

    It lies between `least` and `most` whatever the errors add, but for chance; its interval is that much wider.
    """

    score: float
    low: float
    high: float
    raw: float
    n: int
    least: float = np.nan
    most: float = np.nan


NOTHING = AbsoluteMean(*[np.nan] * 4, 0)


def absolute_mean(
    differences: ArrayLike, covariance: ArrayLike, *, level: float = 0.95, unbiased: bool = False
) -> AbsoluteMean:
    r"""Return the mean of the absolute values of some differences, from estimates of them.

    Of estimates without bias, about normal, shape (n,), and the covariance of their errors, (n, n); ValueError if
    shapes do not fit, or a number is missing. The score is the raw one less :math:`b` at the estimates. The interval
    allows for every :math:`v` that the data do not exclude: its lower end takes off :math:`b` at the nearest to 0 of
    them, its upper end nothing. Near 0 it is wider than it need be, and holds the true score more often than the level
    says.

    At the estimates, which lie farther from 0 than the differences do, :math:`b` is too small. Where the covariance is
    `unbiased`, squares of estimates exceed those of the differences by :math:`\sigma^2`, so that
    :math:`\lambda = \max(0, 1 - \sum\sigma^2 / \sum\hat v^2)` says what share of theirs is real (James and Stein
    1961, positive part): the score then takes off :math:`b(\sqrt\lambda\,\hat v)`, where the squares add up to those
    of the differences, the lower end :math:`b(\lambda\hat v)`, the upper end :math:`b(\hat v)`. A covariance that is
    too large makes the score too small.

    Without error it is the mean absolute difference; with error and no difference it is less than the raw one.

    >>> absolute_mean([0.5, -0.25], np.zeros((2, 2))).score
    0.375
    >>> result = absolute_mean([0.1, -0.05], 0.01 * np.eye(2))
    >>> result.low, result.score < result.raw < result.high
    (0.0, True)
    """
    v, errors = _checked(differences, covariance)
    if not len(v):
        return NOTHING
    signs, sigma, size, squares = np.sign(v), np.sqrt(np.diag(errors)), np.abs(v), float((v**2).sum())
    raw = float(size.mean())
    # where signs are unsure errors do not cancel as their covariances say
    spread = np.sqrt(max(float(signs @ errors @ signs), float(np.trace(errors)))) / len(v)
    half = float(stats.norm.ppf((1 + level) / 2) * spread)
    real = max(0.0, 1.0 - float(np.trace(errors)) / squares) if squares else 0.0
    nearest = np.maximum(size - stats.norm.ppf(NEAREST) * sigma, 0.0)
    places = (np.sqrt(real) * size, real * size, size) if unbiased else (size, nearest)
    score, least, most = (
        *(raw - float(added_by_errors(place, sigma).mean()) for place in places),
        *([] if unbiased else [raw]),
    )
    return AbsoluteMean(max(score, 0.0), max(least - half, 0.0), most + half, raw, len(v), least, most)


def score_differences(
    differences: Sequence[ArrayLike], *, level: float = 0.95
) -> tuple[pd.DataFrame, pd.DataFrame]:
    r"""Return the scores of models whose differences were measured in the same units, compared two by two.

    A row a model, in the order given: ``score``, the mean absolute difference less what errors add to it, ``raw`` as it
    is; between the ranks ``best`` and ``worst`` (1: the smallest score) lies its own, of all models at once: one more
    than there are models whose score is smaller by the intervals of all pairs, and as many as there are that are not
    larger. A row a pair: ``difference`` of the ``first`` (its number) less the ``second`` with its interval;
    ``low_all`` and ``high_all`` are ends of intervals that hold all differences at once with the same probability
    (Bonferroni).

    Of each model, (n_units, n): the differences of every unit (a context) whose mean over units counts. ValueError of
    fewer than two models or units, of other shapes, or where a number is missing.

    A unit adds :math:`u = \sum_a \mathrm{sign}(\hat v_a)\, v_a / n` to its model's raw score; the standard error of
    a difference is that of the mean of both models' :math:`u` less one another, which takes out what units have in
    common (Student's t). Intervals are wider by the doubt about what errors add: that of one model at its most, of the
    other at its least (`absolute_mean`). Ranks follow from the intervals of all pairs (Mohamad et al. 2019).
    """
    values = [np.asarray(one, float) for one in differences]
    if len(values) < 2 or {one.shape for one in values} != {values[0].shape} or len(values[0]) < 2:
        raise ValueError("differences: expected at least two models and units, and one shape")
    if any(np.isnan(one).any() for one in values):
        raise ValueError("differences: expected numbers, got NaN")
    n, width = values[0].shape
    scores = [
        absolute_mean(one.mean(axis=0), np.atleast_2d(np.cov(one, rowvar=False)) / n, unbiased=True)
        for one in values
    ]
    score, raw, least, most = np.array([(one.score, one.raw, one.least, one.most) for one in scores]).T
    added = np.stack([(one * np.sign(one.mean(axis=0))).sum(axis=1) / width for one in values])
    i, j = np.triu_indices(len(values), 1)
    error = (added[i] - added[j]).std(axis=1, ddof=1) / np.sqrt(n)
    ends = []
    for tail in ((1 - level) / 2, (1 - level) / 2 / len(i)):
        half = stats.t.isf(tail, n - 1) * error
        ends += [least[i] - most[j] - half, most[i] - least[j] + half]
    smaller = np.zeros((len(values), len(values)), bool)  # the first of a place than the second
    smaller[i, j], smaller[j, i] = ends[3] < 0, ends[2] > 0
    best, worst = 1 + smaller.sum(axis=0), len(values) - smaller.sum(axis=1)
    compared = dict(zip(("low", "high", "low_all", "high_all"), ends))
    return (
        pd.DataFrame({"score": score, "raw": raw, "best": best, "worst": worst}),
        pd.DataFrame({"first": i, "second": j, "difference": score[i] - score[j], **compared}),
    )


@dataclass(frozen=True)
class Flips:
    """Differences under the flips of a test whose p-value is the part of them with a score as large, (n_flips, n).

    NaN where a flip leaves one without data; `ones`: what the same flips make of a difference of 1 that is the same in
    all data; `extra`: 1 where flips are drawn, for the one at hand, and 0 where all are counted.
    """

    differences: NDArray[np.float64]
    ones: NDArray[np.float64]
    extra: int


def inverted_mean(
    differences: ArrayLike,
    covariance: ArrayLike,
    *,
    freedom: float = np.inf,
    level: float = 0.95,
    flips: Flips | None = None,
) -> AbsoluteMean:
    r"""Return `absolute_mean` with the scores that a test does not exclude as its interval.

    Of differences and the covariance of their errors as estimated (made larger for caution, it makes the score too
    small) with so many degrees of `freedom`; `flips` of the test that there is no difference: the lower end is then
    that test's, and 0 where its p-value is not below 1 - level.

    A score s is excluded where a raw score as large as the one at hand, or as small, has a probability below
    (1 - level) / 2 if s is true. Many vectors have the score s; the one taken is nearest to the estimates, by least
    squares in units of their variances (the restricted maximum likelihood): for a smaller s than the raw one
    :math:`|v|` is shrunk by soft thresholding. Errors are drawn from a fixed seed. The score itself is the one at which
    the estimates, shrunk by one factor, have the raw score as their expected absolute mean (that of folded normals).

    With flips the errors of the lower end are those of the data less the vector of the score, flipped. No score lies
    below 0, so that all of 1 - level is spent above where s is 0; the half of it is once s is what 0 gives on average.

    One difference of one standard error: 0 is not excluded, nor is (by the normal distribution) 1 + 1.96 of them.

    >>> result = inverted_mean([0.1], [[0.01]])
    >>> result.low, bool(abs(result.high - 0.296) < 0.01)
    (0.0, True)
    """
    v, errors = _checked(differences, covariance)
    if not len(v):
        return NOTHING
    size, variance, signs = np.abs(v), np.diag(errors), np.where(v < 0, -1.0, 1.0)
    sigma, raw = np.sqrt(variance), float(np.abs(v).mean())
    values, vectors = np.linalg.eigh(errors)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # symmetric, so that it is the only one
    drawn = signs[:, None] * (root @ _error_draws(len(v), float(freedom)))
    slack = 1e-9 * max(raw, 1.0)

    def raws(score: float) -> NDArray[np.float64]:
        moved = _nearest(size, variance, score)[:, None] + drawn
        return np.abs(moved, out=moved).mean(axis=0)

    tail = (1 - level) / 2
    reach = raw + 8 * float(sigma.mean())
    if flips is None:
        low = _first(lambda score: (raws(score) >= raw - slack).mean() >= tail, reach)
    else:
        low = _flipped_low(v, variance, flips, raw - slack, tail)
    high = _first(lambda score: (raws(score) <= raw + slack).mean() < tail, reach)
    factor = _first(lambda c: float((c * size + added_by_errors(c * size, sigma)).mean()) >= raw - slack, 1.0)
    return AbsoluteMean(float(np.clip(factor * raw, low, high)), low, high, raw, len(v))


def _flipped_low(
    v: NDArray[np.float64], variance: NDArray[np.float64], flips: Flips, raw: float, tail: float
) -> float:
    """Return the smallest score that the test by flips does not exclude; `tail` is half of what it may err."""
    size, signs = np.abs(v), np.where(v < 0, -1.0, 1.0)
    floor = float(np.nanmean(np.abs(flips.differences), axis=1).mean())

    def held(score: float) -> bool:
        moved = signs * _nearest(size, variance, score)
        raws = np.nanmean(np.abs(moved + flips.differences - moved * flips.ones), axis=1)
        reached = (np.count_nonzero(raws >= raw) + flips.extra) / (len(raws) + flips.extra)
        return reached >= tail * (2 - min(score / floor, 1.0))

    return min(_first(held, raw), raw)


def _first(holds: Callable[[float], bool], reach: float) -> float:
    """Return the smallest number in 0 to `reach` from which on something holds, by bisection."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _nearest(size: NDArray[np.float64], variance: NDArray[np.float64], score: float) -> NDArray[np.float64]:
    """Return the absolute values with this mean that are nearest to `size`, in units of the variances."""
    excess = (size.mean() - score) * len(size)
    if excess <= 0:
        total = variance.sum()
        return size - excess * (variance / total if total > 0 else 1 / len(size))
    if not variance.any():
        return size * score / size.mean()
    # where variances are 0 nothing is taken off; the sum falls in pieces between the thresholds of the others
    some = variance > 0
    order = np.argsort(size[some] / variance[some])
    kept, weight = size[some][order], variance[some][order]
    threshold = kept / weight
    above, left = np.cumsum(kept[::-1])[::-1], np.cumsum(weight[::-1])[::-1]
    sums = above - threshold * left  # of what is left at each threshold
    fixed = size[~some].sum()
    if score * len(size) < fixed:
        return np.where(some, 0.0, size * (score * len(size) / fixed))
    target = score * len(size) - fixed
    first = int(np.searchsorted(-sums, -target))
    if first >= len(kept):
        return np.where(some, 0.0, size)
    return np.where(some, np.maximum(size - (above[first] - target) / left[first] * variance, 0.0), size)


@lru_cache(maxsize=64)
def _error_draws(n: int, freedom: float) -> NDArray[np.float64]:
    """Draws of n standard normal errors, or of Student's t with one common scale, each with its mirror image."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((n, DRAWS // 2))
    if np.isfinite(freedom):
        drawn /= np.sqrt(rng.chisquare(freedom, DRAWS // 2) / freedom)
    return np.concatenate([drawn, -drawn], axis=1)


def added_by_errors(distance: NDArray[np.float64], sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what an error adds to an absolute difference on average: the folded normal's mean less the distance."""
    ratio = np.divide(distance, sigma, out=np.full(len(sigma), np.inf), where=sigma > 0)
    finite = np.minimum(ratio, 1e3)  # beyond it both terms are 0
    return 2 * sigma * (stats.norm.pdf(finite) - finite * stats.norm.cdf(-finite))


def _checked(
    differences: ArrayLike, covariance: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return estimates and the covariance of their errors as arrays, or raise ValueError where they do not fit."""
    v, errors = np.asarray(differences, float), np.asarray(covariance, float)
    if v.ndim != 1 or errors.shape != (len(v), len(v)):
        raise ValueError(
            f"covariance: expected shape (n, n) for n differences, got {errors.shape} for {v.shape}"
        )
    if np.isnan(v).any() or np.isnan(errors).any():
        raise ValueError("differences: expected numbers, got NaN: leave these out")
    return v, errors
