"""Proportions of two or more groups of independent items: differences, stratified tests, distances from a reference.

Wilson's interval of one proportion is `analysis.stats.effects.wilson_interval`; of items in clusters the effective size
of `analysis.stats.rates` goes into it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, nan

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from analysis.stats.effects import wilson_interval
from analysis.stats.sample_size import smallest_number

_ROUNDING = 1e-7  # tables as likely as the one seen, up to this share, count as well, as in `scipy.stats.fisher_exact`
PRECISION = 1e-4  # of a smallest detectable share


def newcombe_interval(
    first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of the difference of two independent proportions, first less second.

    Parameters
    ----------
    first, second : array_like of float
        Proportions, 0 to 1.
    n_first, n_second : array_like
        Items, or effective sizes; of 0 there is no interval.
    level : float

    Returns
    -------
    low, high : ndarray of float64
        NaN where there is no interval.

    Source
    ------
    Newcombe 1998, method 10; `statsmodels.stats.proportion.confint_proportions_2indep(method="newcomb")`.

    Examples
    --------
    >>> low, high = newcombe_interval(56 / 70, 70, 48 / 80, 80)
    >>> round(float(low), 4), round(float(high), 4)
    (0.0524, 0.3339)
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    ends = wilson_interval(a, np.asarray(n_first), level), wilson_interval(b, np.asarray(n_second), level)
    return square_and_add(a, ends[0], b, ends[1])


def square_and_add(
    first: ArrayLike, ends_first: tuple, second: ArrayLike, ends_second: tuple
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of a difference of two independent estimates, first less second, from their own intervals.

    Zou and Donner 2008 (MOVER).
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    low = a - b - np.hypot(a - ends_first[0], ends_second[1] - b)
    return low, a - b + np.hypot(ends_first[1] - a, b - ends_second[0])


def stratified_exact_test(
    first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike
) -> float:
    r"""Return the exact two-sided p-value that in no stratum two groups differ, by the sum of the first's successes.

    Given what both groups of a stratum have together, the first's successes are hypergeometric; the sum over strata
    has the convolution of these distributions, and every sum at most as likely as the one seen counts. Of one stratum
    it is Fisher's exact test.

    Parameters
    ----------
    first, n_first, second, n_second : array_like of int, shape (n_strata,)
        Successes and items of both groups.

    Source
    ------
    Mantel and Haenszel 1959; Agresti 2013, section 7.3.5: the exact conditional test of a common odds ratio of 1.

    Examples
    --------
    >>> round(stratified_exact_test([3], [4], [1], [4]), 4)
    0.4857
    >>> round(stratified_exact_test([3, 4], [4, 4], [1, 0], [4, 4]), 4)
    0.0135
    """
    columns = [np.atleast_1d(np.asarray(one, np.int64)) for one in (first, n_first, second, n_second)]
    density, lowest = np.ones(1), 0
    for a, n_a, b, n_b in zip(*columns, strict=True):
        own, least = _hypergeometric(int(a + b), int(n_a), int(n_b))
        density, lowest = np.convolve(density, own), lowest + least
    seen = density[int(columns[0].sum()) - lowest]
    return float(min(1.0, density[density <= seen * (1 + _ROUNDING)].sum() / density.sum()))


@lru_cache(maxsize=4096)
def _hypergeometric(successes: int, n_first: int, n_second: int) -> tuple[NDArray[np.float64], int]:
    """Probabilities of the first group's successes, and the smallest number of them."""
    least = max(0, successes - n_second)
    values = np.arange(least, min(successes, n_first) + 1)
    return stats.hypergeom.pmf(values, n_first + n_second, successes, n_first), least


def squared_distance(
    successes: ArrayLike, n: ArrayLike, reference: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return unbiased estimates of :math:`(\pi - r)^2`, and their variances.

    .. math:: \frac{x (x - 1)}{n (n - 1)} - 2 r \frac{x}{n} + r^2

    The squared distance of an observed share is too large on average, by :math:`\pi (1 - \pi) / n`: shares of ten
    items each look far from one half where all are one half. The variance
    :math:`4 (\pi - r)^2 \sigma^2 / n + 2 \sigma^4 / (n (n - 1))`, with :math:`\sigma^2 = \pi (1 - \pi)`, is taken at
    the share :math:`(x + 1) / (n + 2)`, so that it is not 0 where all items are alike.

    Parameters
    ----------
    successes, n : array_like of int
        NaN of fewer than two items.
    reference : array_like of float

    Source
    ------
    Lehmann and Casella 1998, section 2.1 (the unbiased estimator); Hoeffding 1948 (the variance of a U-statistic).

    Examples
    --------
    >>> value, variance = squared_distance([10, 5], 10, 0.5)
    >>> value.round(4).tolist(), variance.round(4).tolist()
    ([0.25, -0.0278], [0.0054, 0.0014])
    """
    x, n, r = (np.asarray(one, np.float64) for one in (successes, n, reference))
    n = np.where(n > 1, n, np.nan)
    share = (x + 1) / (n + 2)
    spread = share * (1 - share)
    value = x * (x - 1) / (n * (n - 1)) - 2 * r * x / n + r**2
    return value, 4 * (share - r) ** 2 * spread / n + 2 * spread**2 / (n * (n - 1))


def binomial_power(share: float, n: int, reference: float, alpha: float) -> float:
    """Return the power of the exact two-sided binomial test."""
    return float(stats.binom.pmf(_rejected(n, reference, alpha), n, share).sum())


@lru_cache(maxsize=4096)
def _rejected(n: int, reference: float, alpha: float) -> NDArray[np.int64]:
    """Numbers of successes at which the exact test rejects."""
    likely = stats.binom.pmf(np.arange(n + 1), n, reference)
    order = np.argsort(likely, kind="stable")
    sums = np.cumsum(likely[order])
    last = np.searchsorted(likely[order], likely * (1 + _ROUNDING), side="right") - 1
    return np.flatnonzero(sums[last] <= alpha)


def detectable_share(n: int, reference: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return how far a share must be from the reference for `n` items to tell it, on the side that has more room.

    NaN where not even a share of 0 or 1 is told.
    """
    end = 1.0 if reference <= 0.5 else 0.0
    return _least(lambda share: binomial_power(share, n, reference, alpha), reference, end, power)


def items_for_share(share: float, reference: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest number of items with which a share is told from the reference; NaN where none is."""
    if share == reference:
        return nan
    found = smallest_number(lambda n: binomial_power(share, n, reference, alpha), power)
    return nan if found is None else float(found)


@lru_cache(maxsize=4096)
def items_for_difference(first: float, second: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return how many items each of two groups takes for Fisher's exact test to tell their shares; NaN if equal.

    Casagrande, Pike and Smith 1978.
    """
    if first == second:
        return nan
    apart, mean = abs(first - second), (first + second) / 2
    edge, gain = -special.ndtri(alpha / 2), special.ndtri(power)
    plain = edge * np.sqrt(2 * mean * (1 - mean)) + gain * np.sqrt(
        first * (1 - first) + second * (1 - second)
    )
    n = (plain / apart) ** 2
    return float(ceil(n / 4 * (1 + np.sqrt(1 + 4 / (n * apart))) ** 2))


@lru_cache(maxsize=4096)
def detectable_difference(
    first: float, n_first: float, n_second: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Return the smallest difference from a share that two groups of these sizes tell, on the side with more room.

    Groups of different sizes count as two of their harmonic mean. NaN where none is told.
    """
    n, end = 2 / (1 / n_first + 1 / n_second), 1.0 if first <= 0.5 else 0.0

    def told(second: float) -> float:
        return power if items_for_difference(first, second, alpha=alpha, power=power) <= n else 0.0

    return _least(told, first, end, power)


def _least(told: Callable[[float], float], start: float, end: float, power: float) -> float:
    """The distance from `start` towards `end` from which on the power is reached."""
    if told(end) < power:
        return nan
    near, far = 0.0, abs(end - start)
    while far - near > PRECISION:
        middle = (near + far) / 2
        near, far = (near, middle) if told(start + np.sign(end - start) * middle) >= power else (middle, far)
    return far


def ranks(better: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lowest and the highest rank that each of several may have, 1 the best, shape (n,) each.

    `better`: whether the row was told to be better than the column, all pairs adjusted together: then all ranks hold at
    once (Mogstad, Romano, Shaikh and Wilhelm 2024).
    """
    table = np.asarray(better, bool)
    return 1 + table.sum(axis=0), len(table) - table.sum(axis=1)


def normal_p(value: ArrayLike, variance: ArrayLike) -> NDArray[np.float64]:
    """Return two-sided p-values of estimates by the normal distribution; NaN where the variance is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return 2 * special.ndtr(
            -np.abs(np.asarray(value)) / np.sqrt(np.where(np.asarray(variance) > 0, variance, nan))
        )
