"""Shares of items, independent or in clusters: intervals, differences, stratified tests, ranks."""

from __future__ import annotations

from functools import lru_cache
from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

_ROUNDING = 1e-7  # tables as likely as the one seen, up to this share, count as well, as in `scipy.stats.fisher_exact`


def wilson_interval(
    share: ArrayLike, size: ArrayLike, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Wilson's score interval of proportions from (possibly effective, possibly fractional) sample sizes.

    NaN where a size is 0 or less.

    >>> low, high = wilson_interval(np.array([0.5]), np.array([10]), 0.95)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.2366, 0.7634)
    """
    size = np.where(np.asarray(size) > 0, np.asarray(size, np.float64), nan)
    with np.errstate(invalid="ignore"):
        low, high = proportion_confint(np.asarray(share) * size, size, 1 - level, method="wilson")
    return np.asarray(low), np.asarray(high)


def effective(
    hits: NDArray, of: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return rates over prompts (axis 0), the sizes that Wilson's interval takes for them, and what each prompt adds.

    The size is :math:`r (1 - r) / v` (Korn and Graubard 1998), v the linearised variance over prompts, at most the
    number of items; the number of prompts where r is 0 or 1; and 0, which gives no interval, with fewer than two
    prompts. What the prompts add to the deviation of a rate has the sum 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        size, prompts = of.sum(axis=0), (of > 0).sum(axis=0)
        rate = np.where(size > 0, hits.sum(axis=0) / size, nan)
        pull = np.nan_to_num((hits - rate * of) / size)
        spread = (pull**2).sum(axis=0) * prompts / np.where(prompts > 1, prompts - 1, nan)
        edge = (rate == 0) | (rate == 1)
        known = np.where(edge, prompts, np.minimum(rate * (1 - rate) / spread, size))
        return rate, np.where(prompts > 1, known, 0), pull


def linearised(totals: NDArray, counts: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means over items, and one value a unit (axis 0) whose mean they are: an interval of these is one of them.

    Of sums of the items' values and numbers of items by unit; NaN without items. The mean of units' own means is
    another quantity, where units have different numbers of items.
    """
    with np.errstate(invalid="ignore"):
        mean = totals.sum(axis=0) / counts.sum(axis=0)
        each = mean + (totals - mean * counts) * ((counts > 0).sum(axis=0) / counts.sum(axis=0))
    return mean, np.where(counts > 0, each, nan)


def newcombe_interval(
    first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of the difference of two independent proportions, first less second.

    Newcombe 1998, method 10, from items or effective sizes; NaN where one is 0.

    >>> low, high = newcombe_interval(56 / 70, 70, 48 / 80, 80)
    >>> round(float(low), 4), round(float(high), 4)
    (0.0524, 0.3339)
    """
    ends = wilson_interval(first, n_first, level), wilson_interval(second, n_second, level)
    return square_and_add(first, ends[0], second, ends[1])


def square_and_add(
    first: ArrayLike,
    ends_first: tuple,
    second: ArrayLike,
    ends_second: tuple,
    correlation: ArrayLike = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of a difference of two estimates, first less second, from their own intervals.

    Zou and Donner 2008 (MOVER), of paired proportions Newcombe 1998.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)

    def joined(one: NDArray, other: NDArray) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(one**2 - 2 * np.asarray(correlation) * one * other + other**2, 0))

    low = a - b - joined(a - ends_first[0], ends_second[1] - b)
    return low, a - b + joined(ends_first[1] - a, b - ends_second[0])


def stratified_exact_test(
    first: ArrayLike, n_first: ArrayLike, second: ArrayLike, n_second: ArrayLike
) -> float:
    """Return the exact two-sided p-value that in no stratum two groups differ, by the sum of the first's successes.

    Of successes and items of both groups, shape (n_strata,). Given what both groups of a stratum have together, the
    first's successes are hypergeometric; the sum over strata has the convolution of these distributions, and every sum
    at most as likely as the one seen counts (Agresti 2013, section 7.3.5). Of one stratum it is Fisher's exact test.

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
    r"""Return unbiased estimates of :math:`(\pi - r)^2`, and their variances; NaN of fewer than two items.

    .. math:: \frac{x (x - 1)}{n (n - 1)} - 2 r \frac{x}{n} + r^2

    The squared distance of an observed share is too large on average, by :math:`\pi (1 - \pi) / n`. The variance is
    that of a U-statistic (Hoeffding 1948) at the share :math:`(x + 1) / (n + 2)`, so that it is not 0 where all items
    are alike.

    >>> value, variance = squared_distance([10, 5], 10, 0.5)
    >>> value.round(4).tolist(), variance.round(4).tolist()
    ([0.25, -0.0278], [0.0054, 0.0014])
    """
    x, n, r = (np.asarray(one, np.float64) for one in (successes, n, reference))
    n = np.where(n > 1, n, nan)
    share = (x + 1) / (n + 2)
    spread = share * (1 - share)
    value = x * (x - 1) / (n * (n - 1)) - 2 * r * x / n + r**2
    return value, 4 * (share - r) ** 2 * spread / n + 2 * spread**2 / (n * (n - 1))


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
