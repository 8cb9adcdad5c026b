r"""Differences that few prompts carry: how many, what they cannot have seen, and a bounded interval.

A mean over prompts that mostly do not change rests on the few that do. Intervals that estimate a variance then fail
both ways: where one prompt of 24 changed, a third of the resamples do not hold it, their standard errors are next to
nothing and the studentized interval explodes; where none changed, the interval is as narrow as the noise, and a rare
change is ruled out that was only not drawn.

*Effective number of prompts*: :math:`(\sum e_i^2)^2 / \sum e_i^4` of the deviations from the mean: n where all are
alike, about n/3 where they are normal, about k where k prompts changed. Below `FEWEST` more than one resample in forty
(:math:`e^{-3.7}`) holds none of the prompts that carry the difference.

*Bounded*: if no prompt differs by more than a known reach, the mean is bounded without any variance: by the quantile of
a Bayesian bootstrap over the n prompts and one further prompt at the end of the range. It keeps its level whatever the
distribution (Gaffke 2005; Learned-Miller and Thomas 2019), and where no prompt changed it is the rule of three times
the reach.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.exact_sums import central_sums, exact_sum
from analysis.stats.resampling import BLOCK, RARE_STREAM, column_blocks, matrix, product, quantiles

FEWEST = 4.0  # effective prompts below which resampled standard errors degenerate
SHARE = 0.25  # of few prompts, so many suffice
FEW_CARRY = "few prompts carry the difference"
UNIT = 1024  # weights are whole multiples of 1 / UNIT, so that sums are exact
Ends = tuple[NDArray[np.float64], NDArray[np.float64]]


def effective_prompts(values: ArrayLike) -> NDArray[np.float64]:
    """Return how many prompts carry the variance of each column, from 1 to n; NaN where all values are equal.

    Four values that differ from their mean alike; and one of four that differs from the others.

    >>> effective_prompts([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 1.0]]).round(4).tolist()
    [4.0, 1.7143]
    """
    values = matrix(values)
    n = (~np.isnan(values)).sum(axis=0)
    if not len(values):
        return np.full(values.shape[1], np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = exact_sum(values) / n
        mean = np.where(np.ptp(np.where(np.isnan(values), mean, values), axis=0) > 0, mean, np.nan)
        largest = np.nanmax(np.abs(values - mean), axis=0, initial=0.0)
        squares, fourth = central_sums(
            (values - mean) / np.where(largest > 0, largest, np.nan), 0.0, 2, 4
        )  # in units of the largest, which a fourth power of small numbers needs
        return np.where(np.isnan(mean), np.nan, squares**2 / fourth)


def few_carry(n_effective: NDArray[np.float64], n: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each column whether too few prompts carry its variance for a standard error to be resampled.

    Fewer than `FEWEST`, or than `SHARE` of the prompts where that is less; NaN, of no variance, is not few.
    """
    return n_effective < np.minimum(FEWEST, SHARE * n)


@lru_cache(maxsize=1)
def exponential_weights(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """Return the weights of a Bayesian bootstrap over n prompts and one further, the last, shape (resamples, n + 1).

    Exponential with mean `UNIT`, rounded; kept, not to be written to.
    """
    rng, weights = np.random.default_rng([seed, RARE_STREAM]), np.empty((resamples, n + 1), np.uint16)
    for start in range(0, resamples, BLOCK):
        rows = min(BLOCK, resamples - start)
        weights[start : start + rows] = np.rint(UNIT * rng.standard_exponential((rows, n + 1)))
    weights.flags.writeable = False
    return weights


def bounded_draws(values: NDArray[np.float64], weights: NDArray[np.uint16], ends: Ends) -> Ends:
    """Return weighted means with one further prompt at the lower, and at the upper, end of the range.

    Of values (n_prompts, n_columns), `exponential_weights` and both ends (n_columns,); shape (resamples, n_columns)
    each.
    """
    present, further = ~np.isnan(values), weights[:, -1:].astype(np.float64)
    total = np.maximum(product(weights[:, :-1], present.astype(np.float64)) + further, 1.0)
    largest = np.where(present, np.abs(values), 0.0).max(axis=0, initial=0.0)
    bits = 53 - int(np.ceil(np.log2(max(weights.sum(axis=1, dtype=np.int64).max(initial=2), 2))))
    exponent = np.maximum(np.frexp(largest)[1].astype(np.int64) - bits, -1000)
    whole = np.rint(np.where(present, values, 0.0) * np.ldexp(1.0, -exponent))
    inside = product(weights[:, :-1], whole * np.ldexp(1.0, exponent))  # exact, in whatever order
    return (inside + further * ends[0]) / total, (inside + further * ends[1]) / total


def ends_of_draws(draws: Ends, level: float) -> Ends:
    """Return the bounded interval from what `bounded_draws` gave."""
    (low,), (high,) = quantiles(draws[0], (1 - level) / 2), quantiles(draws[1], (1 + level) / 2)
    return low, high


def bounded_ends(values: NDArray[np.float64], weights: NDArray[np.uint16], ends: Ends, level: float) -> Ends:
    """Return the interval of a mean of values between two known ends, whatever their distribution.

    No prompt of 24 changed, and a change is at most 1: the upper end is the exact rule of three (Clopper and Pearson).

    >>> weights = exponential_weights(24, 20000, seed=0)
    >>> ends = np.array([-1.0]), np.array([1.0])
    >>> high = bounded_ends(np.zeros((24, 1)), weights, ends, 0.9)[1]
    >>> round(float(high[0]), 2), round(1 - 0.05 ** (1 / 24), 2)
    (0.12, 0.12)
    """
    low, high = np.empty((2, values.shape[1]))
    for block in column_blocks(values.shape[1], rows=len(weights)):
        drawn = bounded_draws(values[:, block], weights, (ends[0][block], ends[1][block]))
        low[block], high[block] = ends_of_draws(drawn, level)
    return low, high


def range_of(values: NDArray[np.float64], reach: NDArray[np.float64] | None) -> Ends:
    """Return the ends of what a prompt can have: ±reach, or as far on both sides of the median as any value lies.

    On both sides, since a change that was seen once one way may as well come the other way; never within what was seen.
    """
    low, high = (smaller.reduce(values, axis=0, initial=np.nan) for smaller in (np.fmin, np.fmax))
    if reach is not None:
        return np.fmin(low, -np.asarray(reach)), np.fmax(high, np.asarray(reach))
    if not len(values):
        return low, high
    (middle,) = quantiles(values, 0.5)
    half = np.fmax(high - middle, middle - low)
    return middle - half, middle + half
