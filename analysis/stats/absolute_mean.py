"""A mean of absolute values of estimated differences, which their errors make too large: debiased, with an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

DRAWS = 2000  # of errors, by which `inverted_mean` finds what scores the data exclude
HALVINGS = 16  # of its bisections
NEAREST = 0.995  # probability with which a true difference is no nearer to 0 than the interval's lower end allows for


@dataclass(frozen=True)
class AbsoluteMean:
    """A mean absolute difference with its interval.

    Attributes
    ----------
    score : float
        Less what the errors of the differences add to it on average; at least 0.
    low, high : float
    raw : float
        As estimated.
    n : int
        Differences that it is the mean of.
    """

    score: float
    low: float
    high: float
    raw: float
    n: int


def absolute_mean(differences: ArrayLike, covariance: ArrayLike, *, level: float = 0.95) -> AbsoluteMean:
    r"""Return the mean of the absolute values of some differences, from estimates of them.

    Parameters
    ----------
    differences : array_like of float, shape (n,)
        Estimates without bias, about normal.
    covariance : array_like of float, shape (n, n)
        Of their errors.
    level : float

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is missing.

    Notes
    -----
    An error of size :math:`\sigma` adds :math:`b(v) = E|v + \sigma Z| - |v|` to the absolute value of a difference
    :math:`v`: :math:`\sigma\sqrt{2/\pi}` at 0, and nothing where :math:`|v|` is large (the folded normal). No estimate
    of :math:`|v|` is unbiased. The score is the raw one less :math:`b` at the estimates. The interval allows for every
    :math:`v` that the data do not exclude: its lower end takes off :math:`b` at the nearest to 0 of them, its
    upper end nothing. Near 0 it is wider than it need be, and holds the true score more often than the level says.

    Examples
    --------
    Without error it is the mean absolute difference; with error and no difference it is less than the raw one.

    >>> absolute_mean([0.5, -0.25], np.zeros((2, 2)))
    AbsoluteMean(score=0.375, low=0.375, high=0.375, raw=0.375, n=2)
    >>> result = absolute_mean([0.1, -0.05], 0.01 * np.eye(2))
    >>> result.low, result.score < result.raw < result.high
    (0.0, True)
    """
    v, errors = checked_differences(differences, covariance)
    if not len(v):
        return AbsoluteMean(np.nan, np.nan, np.nan, np.nan, 0)
    count, size, sigma = len(v), np.abs(v), np.sqrt(np.diag(errors))
    raw = float(size.mean())
    nearest = np.maximum(size - stats.t.ppf(NEAREST, np.inf) * sigma, 0.0)
    signs = np.sign(v)
    spread = float(np.sqrt(max(signs @ errors @ signs, 0.0))) / count
    # where signs are unsure errors do not cancel as their covariances say
    spread = max(spread, float(np.sqrt((sigma**2).sum())) / count)
    half = float(stats.t.ppf((1 + level) / 2, np.inf)) * spread
    score = max(raw - float(added_by_errors(size, sigma).mean()), 0.0)
    return AbsoluteMean(
        score, max(raw - float(added_by_errors(nearest, sigma).mean()) - half, 0.0), raw + half, raw, count
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
    r"""Return the mean of the absolute values of some differences, with the scores that a test does not exclude.

    Parameters
    ----------
    differences : array_like of float, shape (n,)
        Estimates without bias, about normal.
    covariance : array_like of float, shape (n, n)
        Of their errors, as estimated: made larger for caution, it makes the score too small.
    freedom : float
        Degrees of freedom of the covariance.
    level : float
    flips : Flips, optional
        Of the test that there is no difference: the lower end is then that test's, and 0 where its p-value is not
        below 1 - level.

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is missing.

    Notes
    -----
    A score s is excluded where a raw score as large as the one at hand, or as small, has a probability below
    (1 - level) / 2 if s is true. Many vectors have the score s; the one taken is nearest to the estimates, by least
    squares in units of their variances (the restricted maximum likelihood): for a smaller s than the raw one
    :math:`|v|` is shrunk by soft thresholding. Errors are drawn from a fixed seed. The score itself is the one at which
    the estimates, shrunk by one factor, have the raw score as their expected absolute mean (that of folded normals).

    With flips the errors of the lower end are those of the data less the vector of the score, flipped. No score lies
    below 0, so that all of 1 - level is spent above where s is 0; the half of it is once s is what 0 gives on average.

    Examples
    --------
    One difference of one standard error: 0 is not excluded, nor is (by the normal distribution) 1 + 1.96 of them.

    >>> result = inverted_mean([0.1], [[0.01]])
    >>> result.low, bool(abs(result.high - 0.296) < 0.01)
    (0.0, True)
    """
    v, errors = checked_differences(differences, covariance)
    if not len(v):
        return AbsoluteMean(np.nan, np.nan, np.nan, np.nan, 0)
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


def checked_differences(
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
