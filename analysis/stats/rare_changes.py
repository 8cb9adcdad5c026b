r"""Differences that few prompts carry: how many, what they cannot have seen, and a bounded interval.

A mean over prompts that mostly do not change rests on the few that do. Intervals that estimate a variance then fail
both ways: where one prompt of 24 changed, a third of the resamples do not hold it, their standard errors are next to
nothing and the studentized interval explodes; where none changed, the interval is as narrow as the noise, and a rare
change is ruled out that was only not drawn.

*Effective number of prompts*: :math:`(\sum e_i^2)^2 / \sum e_i^4` of the deviations from the mean: n where all are
alike, about n/3 where they are normal, about k where k prompts changed. Below `FEWEST` more than one resample in forty
(:math:`e^{-3.7}`) holds none of the prompts that carry the difference.

*Unseen*: a kind of prompt that is missing among n prompts is at most :math:`1 - 0.05^{1/n} \approx 3/n` of all prompts,
with 95 % confidence (the rule of three).

*Bounded*: if no prompt differs by more than a known reach, the mean is bounded without any variance: by the quantile of
a Bayesian bootstrap over the n prompts and one further prompt at the end of the range. It keeps its level whatever the
distribution (Gaffke 2005), and where no prompt changed it is the rule of three times the reach.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.exact_sums import central_sums, exact_sum
from analysis.stats.resampling import BLOCK, column_blocks, column_quantiles, matrix, product, quantiles

FEWEST = 4.0  # effective prompts below which resampled standard errors degenerate
SHARE = 0.25  # of few prompts, so many suffice
FEW_CARRY = "few prompts carry the difference"
RARE_STREAM = 4  # beside the streams of `analysis.stats.resampling`
UNIT = 1024  # weights are whole multiples of 1 / UNIT, so that sums are exact


def effective_prompts(values: ArrayLike) -> NDArray[np.float64]:
    r"""Return how many prompts carry the variance of each column, :math:`(\sum e_i^2)^2 / \sum e_i^4`.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        NaN is left out.

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        From 1 to the number of prompts with a value; NaN where all values are equal.

    Examples
    --------
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
    """Say for each column whether too few prompts carry its variance for a standard error to be resampled.

    Fewer than `FEWEST`, or than `SHARE` of the prompts where that is less; NaN, of no variance, is not few.
    """
    return n_effective < np.minimum(FEWEST, SHARE * n)


def unseen_share(n: ArrayLike, *, alpha: float = 0.05) -> NDArray[np.float64]:
    r"""Return the largest share that a kind of prompt can have which none of n prompts is, :math:`1 - \alpha^{1/n}`.

    The rule of three, 3 / n, in its exact form; 1 where there is no prompt.

    Source
    ------
    Clopper and Pearson 1934, of 0 of n; Hanley and Lippman-Hand 1983.

    Examples
    --------
    >>> unseen_share([0, 1, 24, 100]).round(4).tolist()
    [1.0, 0.95, 0.1173, 0.0295]
    """
    n = np.asarray(n, np.float64)
    return np.where(n > 0, -np.expm1(np.log(alpha) / np.maximum(n, 1)), 1.0)


@lru_cache(maxsize=1)
def exponential_weights(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """Return the weights of a Bayesian bootstrap over n prompts and one further, in units of 1 / `UNIT`.

    Shape (resamples, n + 1), the further prompt's last; exponential with mean `UNIT`, rounded.
    """
    rng, weights = np.random.default_rng([seed, RARE_STREAM]), np.empty((resamples, n + 1), np.uint16)
    for start in range(0, resamples, BLOCK):
        rows = min(BLOCK, resamples - start)
        weights[start : start + rows] = np.rint(UNIT * rng.standard_exponential((rows, n + 1)))
    weights.flags.writeable = False
    return weights


def bounded_draws(
    values: NDArray[np.float64],
    weights: NDArray[np.uint16],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weighted means with one further prompt at the lower, and at the upper, end of the range.

    Of values (n_prompts, n_columns), `exponential_weights` and both ends (n_columns,); shape (resamples, n_columns)
    each.
    """
    present, further = ~np.isnan(values), weights[:, -1].astype(np.float64)
    if present.all():
        total = weights.sum(axis=1, dtype=np.float64)[None]
    else:
        total = product(weights[:, :-1], present.astype(np.float64)).T + further
    largest = np.where(present, np.abs(values), 0.0).max(axis=0, initial=0.0)
    bits = 53 - int(np.ceil(np.log2(max(weights.sum(axis=1, dtype=np.int64).max(initial=2), 2))))
    exponent = np.maximum(np.frexp(largest)[1].astype(np.int64) - bits, -1000)
    whole = np.where(present, np.rint(np.where(present, values, 0.0) * np.ldexp(1.0, -exponent)), 0.0)
    inside = product(weights[:, :-1], whole * np.ldexp(1.0, exponent)).T  # exact, in whatever order
    total = np.maximum(total, 1.0)
    draws = [end[:, None] * further for end in ends]
    for own in draws:
        own += inside
        own /= total
    return draws[0].T, draws[1].T


def bounded_ends(
    values: NDArray[np.float64],
    weights: NDArray[np.uint16],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    level: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of a mean of values between two known ends, whatever their distribution.

    Parameters
    ----------
    values, weights, ends
        See `bounded_draws`.
    level : float

    Source
    ------
    Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable";
    Learned-Miller and Thomas 2019 for its guarantee.

    Examples
    --------
    No prompt of 24 changed, and a change is at most 1: the upper end is the exact rule of three.

    >>> weights = exponential_weights(24, 20000, seed=0)
    >>> ends = np.array([-1.0]), np.array([1.0])
    >>> high = bounded_ends(np.zeros((24, 1)), weights, ends, 0.9)[1]
    >>> round(float(high[0]), 2), round(float(unseen_share(24)), 2)
    (0.12, 0.12)
    """
    return ends_of_draws(bounded_draws(values, weights, ends), level)


def ends_of_draws(
    draws: tuple[NDArray[np.float64], NDArray[np.float64]], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of `bounded_ends` from what `bounded_draws` gave."""
    (low,), (high,) = quantiles(draws[0], (1 - level) / 2), quantiles(draws[1], (1 + level) / 2)
    return low, high


def range_of(
    values: NDArray[np.float64], reach: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of what a prompt can have: ±reach, or as far on both sides of the median as any value lies.

    On both sides, since a change that was seen once one way may as well come the other way; never within what was seen.
    """
    low, high = (smaller.reduce(values, axis=0, initial=np.nan) for smaller in (np.fmin, np.fmax))
    if reach is not None:
        return np.fmin(low, -np.asarray(reach)), np.fmax(high, np.asarray(reach))
    if not len(values):
        return low, high
    ordered = np.sort(values, axis=0)
    middle = column_quantiles(ordered, np.full(values.shape[1], 0.5))
    half = np.fmax(high - middle, middle - low)
    return middle - half, middle + half


def rare_ends(
    values: NDArray[np.float64],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval of columns whose variance few prompts carry, between the ends of their range (`range_of`)."""
    if not values.shape[1]:
        return np.empty(0), np.empty(0)
    low, high = (np.empty(values.shape[1]) for _ in range(2))
    weights = exponential_weights(len(values), resamples, seed)
    for block in column_blocks(values.shape[1], rows=resamples):
        block_ends = ends[0][block], ends[1][block]
        low[block], high[block] = bounded_ends(values[:, block], weights, block_ends, level)
    return low, high
