"""A mean of absolute values of estimated differences, which their errors make too large: debiased, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

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


def absolute_mean(
    differences: ArrayLike, covariance: ArrayLike, *, freedom: float = np.inf, level: float = 0.95
) -> AbsoluteMean:
    r"""Return the mean of the absolute values of some differences, from estimates of them.

    Parameters
    ----------
    differences : array_like of float, shape (n,)
        Estimates without bias, about normal.
    covariance : array_like of float, shape (n, n)
        Of their errors.
    freedom : float
        Degrees of freedom of the covariance.
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
    v, errors = np.asarray(differences, float), np.asarray(covariance, float)
    if v.ndim != 1 or errors.shape != (len(v), len(v)):
        raise ValueError(
            f"covariance: expected shape (n, n) for n differences, got {errors.shape} for {v.shape}"
        )
    if np.isnan(v).any() or np.isnan(errors).any():
        raise ValueError("differences: expected numbers, got NaN: leave these out")
    if not len(v):
        return AbsoluteMean(np.nan, np.nan, np.nan, np.nan, 0)
    count, size, sigma = len(v), np.abs(v), np.sqrt(np.diag(errors))
    raw = float(size.mean())
    nearest = np.maximum(size - stats.t.ppf(NEAREST, freedom) * sigma, 0.0)
    signs = np.sign(v)
    spread = float(np.sqrt(max(signs @ errors @ signs, 0.0))) / count
    # where signs are unsure errors do not cancel as their covariances say
    spread = max(spread, float(np.sqrt((sigma**2).sum())) / count)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * spread
    score = max(raw - float(_added(size, sigma).mean()), 0.0)
    return AbsoluteMean(
        score, max(raw - float(_added(nearest, sigma).mean()) - half, 0.0), raw + half, raw, count
    )


def _added(distance: NDArray[np.float64], sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what an error adds to an absolute difference on average: the folded normal's mean less the distance."""
    ratio = np.divide(distance, sigma, out=np.full(len(sigma), np.inf), where=sigma > 0)
    finite = np.minimum(ratio, 1e3)  # beyond it both terms are 0
    return 2 * sigma * (stats.norm.pdf(finite) - finite * stats.norm.cdf(-finite))
