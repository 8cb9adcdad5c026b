r"""How sure is a mean over prompts, and can it be called absent? Bootstrap intervals of many columns at once.

The unit is the prompt: the members of a triplet share prompt and noise, and seeds share the prompt, so each row below
is one prompt (its seeds averaged) and each column is one quantity (a site at a step). Every column sees the same
resamples, so columns can be compared. Sums are exact (`analysis.stats.resampling`), so a result depends on the data and
the seed alone.

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

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from analysis.stats.resampling import (
    BLOCK,
    RARE_STREAM,
    central_sums,
    checked_level,
    column_blocks,
    exact_sum,
    matrix,
    moments,
    product,
    quantiles,
    studentized_means,
    undefined,
)

FEWEST = 4.0  # effective prompts below which resampled standard errors degenerate
SHARE = 0.25  # of few prompts, so many suffice
FEW_CARRY = "few prompts carry the difference"
SKEWED = "skewed differences: read the interval, not p_value"
SIGMAS = 2.0  # of the skewness of a normal sample: one in twenty of these is warned of
UNIT = 1024  # weights are whole multiples of 1 / UNIT, so that sums are exact
Ends = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Interval:
    """Means over prompts with bootstrap intervals; arrays of shape (n_columns,), NaN where undefined, for the `reason`.

    `n` are the prompts that have a value.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


def prompt_means(values: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of each prompt over its seeds, so that a prompt counts once however many seeds it has.

    Of values (n_prompts, n_seeds, n_columns), shape (n_prompts, n_columns); NaN where a prompt has no seed with a
    value. ValueError for another number of axes.

    >>> prompt_means([[[1.0], [3.0]], [[5.0], [np.nan]]]).tolist()
    [[2.0], [5.0]]
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 3:
        raise ValueError(f"values: expected shape (n_prompts, n_seeds, n_columns), got {values.shape}")
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(present, values, 0.0).sum(axis=1) / present.sum(axis=1)


def bootstrap_interval(
    values: ArrayLike,
    *,
    reach: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""Return the mean of each column with its interval over rows.

    For resample b, :math:`\bar x^{(b)} = \sum_i c_{bi} x_i / \sum_i c_{bi}` with :math:`c_b` the number of times each
    row was drawn. The studentized interval (Efron and Tibshirani 1993, chapter 12) takes the quantiles of :math:`(\bar
    x^{(b)} - \bar x) / \mathrm{se}^{(b)}` and turns them round at the mean; the envelope, which is ours, is at each end
    the outer one of it and of Student's t. Student's t is short where the values are skewed, the studentized interval
    where they have heavy tails; the envelope covers in both (docs/validation/statistics.md). Where so few prompts carry
    the variance that resampled standard errors degenerate, it is the bounded interval of this module within the
    smallest and the largest value, or ±`reach`, the largest difference that a prompt can have.

    A prompt without a value, NaN, is left out of that column alone; a column's interval does not depend on which others
    stand beside it. There is none with fewer than two prompts and where all values are equal. ValueError if a number is
    out of range, or a value infinite.

    At least as wide as Student's t, 2.5 ± 3.1824 · 0.6455; a column of equal values has none.

    >>> result = bootstrap_interval([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [3.0, 5.0]])
    >>> result.mean.tolist(), bool(result.low[0] <= 0.4457), bool(result.high[0] >= 4.5543)
    ([2.5, 5.0], True, True)
    >>> result.reason.tolist()
    ['', 'the same value in every prompt']
    """
    values = matrix(values)
    checked_level(level)
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    n, mean, sd = moments(values)
    low, high = np.full((2, values.shape[1]), np.nan)
    reason = undefined(values)
    tails = (1 - level) / 2, (1 + level) / 2
    for block in column_blocks(values.shape[1], rows=max(resamples, len(values))):
        place = np.flatnonzero(reason[block] == "") + block.start
        if len(place):
            drawn = quantiles(studentized_means(values[:, place], resamples, seed), *tails)
            student = [special.stdtrit(n[place] - 1, tail) for tail in tails]
            error = sd[place] / np.sqrt(n[place])
            low[place] = mean[place] - error * np.fmax(drawn[1], student[1])
            high[place] = mean[place] - error * np.fmin(drawn[0], student[0])
    few = few_carry(effective_prompts(values), n) & (reason == "")
    if few.any():
        ends = range_of(values[:, few], None if reach is None else np.asarray(reach)[few])
        low[few], high[few] = bounded_ends(values[:, few], ends, level=level, resamples=resamples, seed=seed)
    return Interval(mean, low, high, n, reason)


def equivalence_test(
    values: ArrayLike, delta: float, *, reach: ArrayLike, resamples: int = 2000, seed: int = 0
) -> NDArray[np.float64]:
    r"""Return p-values of the test that the mean of each column lies within :math:`\pm\delta`.

    Null: the mean is ≤ −δ or ≥ δ. The p-value is the largest of three: of two one-sided tests by Student's t of
    :math:`\bar x \mp \delta` (Schuirmann 1987); of where ±δ stands among the studentized resamples, (1 + #) / (1 +
    resamples); and of the bounded interval, which allows for rare changes that were not drawn, with the largest
    difference that a prompt can have, `reach`. It keeps its level with skewed differences too. Where few prompts carry
    the variance standard errors say nothing, and the bounded interval decides alone. NaN with fewer than two prompts
    and where all values are equal; ValueError if `delta` is not above 0.

    >>> equivalence_test([[0.1], [-0.1], [0.2], [-0.2]], 0.5, reach=[1.0]).round(2).tolist()
    [0.07]
    """
    values = matrix(values)
    if not (np.isfinite(delta) and delta > 0):
        raise ValueError(f"delta: expected a number above 0, got {delta}")
    n, mean, sd = moments(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = sd / np.sqrt(n)
        t_above, t_below = (mean + delta) / error, (mean - delta) / error
        p_value = np.maximum(special.stdtr(n - 1, -t_above), special.stdtr(n - 1, t_below))
        draws = studentized_means(values, resamples, seed)
        tails = ((draws >= t_above).sum(axis=0), (draws <= t_below).sum(axis=0))
        p_value = np.maximum(p_value, (1 + np.maximum(*tails)) / (1 + (~np.isnan(draws)).sum(axis=0)))
        low, high = bounded_means(values, range_of(values, np.asarray(reach)), resamples, seed)
        beyond = np.maximum((low <= -delta).sum(axis=0), (high >= delta).sum(axis=0))
        bounded = (1 + beyond) / (1 + resamples)
    few = few_carry(effective_prompts(values), n)
    p_value = np.where(few, bounded, np.maximum(p_value, bounded))
    return np.where(undefined(values) == "", p_value, np.nan)


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


def bounded_means(values: NDArray[np.float64], ends: Ends, resamples: int, seed: int) -> Ends:
    """Return weighted means with one further prompt at the lower, and at the upper, end of the range.

    Of values (n_prompts, n_columns) and both ends (n_columns,); shape (resamples, n_columns) each.
    """
    weights = exponential_weights(len(values), resamples, seed)
    present, further = ~np.isnan(values), weights[:, -1:].astype(np.float64)
    total = np.maximum(product(weights[:, :-1], present.astype(np.float64)) + further, 1.0)
    largest = np.where(present, np.abs(values), 0.0).max(axis=0, initial=0.0)
    bits = 53 - int(np.ceil(np.log2(max(weights.sum(axis=1, dtype=np.int64).max(initial=2), 2))))
    exponent = np.maximum(np.frexp(largest)[1].astype(np.int64) - bits, -1000)
    whole = np.rint(np.where(present, values, 0.0) * np.ldexp(1.0, -exponent))
    inside = product(weights[:, :-1], whole * np.ldexp(1.0, exponent))  # exact, in whatever order
    return (inside + further * ends[0]) / total, (inside + further * ends[1]) / total


def bounded_ends(values: NDArray[np.float64], ends: Ends, *, level: float, resamples: int, seed: int) -> Ends:
    """Return the interval of a mean of values between two known ends, whatever their distribution.

    No prompt of 24 changed, and a change is at most 1: the upper end is the exact rule of three (Clopper and Pearson).

    >>> ends = np.array([-1.0]), np.array([1.0])
    >>> high = bounded_ends(np.zeros((24, 1)), ends, level=0.9, resamples=20000, seed=0)[1]
    >>> round(float(high[0]), 2), round(1 - 0.05 ** (1 / 24), 2)
    (0.12, 0.12)
    """
    low, high = np.empty((2, values.shape[1]))
    for block in column_blocks(values.shape[1], rows=resamples):
        drawn = bounded_means(values[:, block], (ends[0][block], ends[1][block]), resamples, seed)
        (low[block],), (high[block],) = (
            quantiles(drawn[0], (1 - level) / 2),
            quantiles(drawn[1], (1 + level) / 2),
        )
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


def gap_cautions(values: NDArray[np.float64], n_effective: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return a caution about the mean of each column, values (n_prompts, n_columns); an empty text where there is none.

    A caution takes nothing away: it says which number to read with what reserve, in such simulated cases as miss their
    error rate (docs/validation/statistics.md). `n_effective` are the `effective_prompts`.

    >>> values = np.zeros((24, 1))
    >>> values[0] = 1.0
    >>> gap_cautions(values, np.array([1.1])).tolist()
    ['few prompts carry the difference']
    """
    n = (~np.isnan(values)).sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = stats.mstats.skew(np.ma.masked_invalid(values), axis=0, bias=False)
        error = np.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))  # of n normal values
        skewed = np.abs(np.ma.filled(skewness, 0.0)) > SIGMAS * error
    return np.select([few_carry(n_effective, n), skewed & (n > 2)], [FEW_CARRY, SKEWED], "").astype(object)
