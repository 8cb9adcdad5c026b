"""How large is a paired difference? One value a prompt, many columns at once.

Beside the mean difference (`analysis.stats.intervals`) stand here: the mean of a prompt over its seeds, and effect
sizes (the mean itself; without units Cohen's d_z and the probability of superiority) with intervals. Whether a
difference can be called absent is asked in `analysis.stats.equivalence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.exact_sums import central_sums, exact_sum, slabs
from analysis.stats.rare_changes import (
    bounded_ends,
    effective_prompts,
    exponential_weights,
    few_carry,
    range_of,
    rare_ends,
)
from analysis.stats.resampling import (
    column_blocks,
    column_quantiles,
    matrix,
    moments,
    resample_counts,
    resampled_deviations,
    studentized,
    studentized_ends,
    undefined,
)


@dataclass(frozen=True)
class EffectSizes:
    """Effect sizes of paired differences; arrays have shape (n_columns,), NaN where undefined.

    Attributes
    ----------
    mean, mean_low, mean_high : ndarray of float64
        Mean difference with its envelope interval, see `analysis.stats.intervals.bootstrap_interval`.
    ruled_out : ndarray of float64
        The smallest δ such that a mean of δ or more, either way, is ruled out at the level α = 1 - level: the farther
        end of the envelope interval of level 1 - 2α, and of the bounded one where a reach is given. Where few
        prompts carry the variance, of the bounded one alone, and NaN without a reach.
    d_z, d_z_low, d_z_high : ndarray of float64
        Mean over standard deviation of the differences. 0 is no difference; the sign is the mean's.
    superiority, superiority_low, superiority_high : ndarray of float64
        Part of the prompts with a positive difference, ties counted half. 0 to 1; 1/2 is no difference.
    n : ndarray of int64
        Prompts that have a value.
    n_effective : ndarray of float64
        How many of them carry the variance, see `analysis.stats.rare_changes`.
    mean_reason : ndarray of object (str)
        Why the mean's interval is NaN; empty where it is not.
    """

    mean: NDArray[np.float64]
    mean_low: NDArray[np.float64]
    mean_high: NDArray[np.float64]
    ruled_out: NDArray[np.float64]
    d_z: NDArray[np.float64]
    d_z_low: NDArray[np.float64]
    d_z_high: NDArray[np.float64]
    superiority: NDArray[np.float64]
    superiority_low: NDArray[np.float64]
    superiority_high: NDArray[np.float64]
    n: NDArray[np.int64]
    n_effective: NDArray[np.float64]
    mean_reason: NDArray[np.object_]


def prompt_means(values: ArrayLike) -> NDArray[np.float64]:
    """Average over seeds, so that a prompt counts once however many seeds it has.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_seeds, n_columns)
        NaN where there is no value.

    Returns
    -------
    ndarray of float64, shape (n_prompts, n_columns)
        NaN where a prompt has no seed with a value.

    Raises
    ------
    ValueError
        `values` has another number of axes.

    Examples
    --------
    >>> prompt_means([[[1.0], [3.0]], [[5.0], [np.nan]]]).tolist()
    [[2.0], [5.0]]
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 3:
        raise ValueError(f"values: expected shape (n_prompts, n_seeds, n_columns), got {values.shape}")
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(present, values, 0.0).sum(axis=1) / present.sum(axis=1)


def effect_sizes(
    values: ArrayLike,
    *,
    reach: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> EffectSizes:
    r"""Effect sizes of paired differences, with intervals, all from the same resamples.

    The mean; :math:`d_z = \bar x / s` and its BCa bootstrap interval over prompts, under the resamples of
    `bootstrap_interval`; the probability of superiority with Wilson's interval, its size that of n prompts
    (fewer than n effective ones are never assumed; ties only narrow it).

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        Paired differences; NaN where there is none.
    reach : array_like of float, shape (n_columns,), optional
        The largest difference that a prompt can have. The mean's interval where few prompts carry the variance, and
        ``ruled_out`` everywhere, then allow for prompts that change so much and were not drawn.
    level : float
    resamples, seed : int

    Raises
    ------
    ValueError
        `level` is no number between 0 and 1.

    Source
    ------
    Cohen 1988 (d_z); Efron 1987 (BCa, as `scipy.stats.bootstrap`); Wilson 1927.

    Examples
    --------
    Differences 1, 2, 3: mean 2, standard deviation 1; all positive.

    >>> result = effect_sizes([[1.0], [2.0], [3.0]])
    >>> float(result.d_z[0]), float(result.superiority[0])
    (2.0, 1.0)
    >>> round(float(result.superiority_low[0]), 4)  # 3 of 3 by Wilson
    0.4385
    """
    values = matrix(values)
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    n, mean, sd = moments(values)
    mean_reason = undefined(values)
    defined = mean_reason == ""
    with np.errstate(invalid="ignore", divide="ignore"):
        d_z = np.where(defined, mean / np.where(sd > 0, sd, np.nan), np.nan)
    low, high, ruled_out, d_low, d_high = np.full((5, values.shape[1]), np.nan)
    n_effective = effective_prompts(values)
    few, ends = few_carry(n_effective, n), range_of(values, reach)
    counts = resample_counts(len(values), resamples, seed) if defined.any() else None
    weights = exponential_weights(len(values), resamples, seed) if reach is not None else None
    for block in column_blocks(values.shape[1], rows=max(resamples, len(values))):
        place = np.flatnonzero(defined[block]) + block.start
        if len(place):
            chosen = values[:, block] if defined[block].all() else values[:, place]
            drawn = resampled_deviations(chosen, mean[place], counts)
            mean_error_n = mean[place], sd[place] / np.sqrt(n[place]), n[place]
            levels = level, 2 * level - 1
            wide, narrow = studentized_ends(studentized(*drawn), *mean_error_n, *levels)
            low[place], high[place] = wide
            ruled_out[place] = np.abs(narrow).max(axis=0)
            if weights is not None:
                narrow = bounded_ends(chosen, weights, (ends[0][place], ends[1][place]), 2 * level - 1)
                bounded = np.abs(narrow).max(axis=0)
                ruled_out[place] = np.where(few[place], bounded, np.maximum(ruled_out[place], bounded))
            d_low[place], d_high[place] = _d_z_ends(chosen, d_z[place], mean[place], drawn, level)
    rare = np.flatnonzero(few & defined)
    low[rare], high[rare] = rare_ends(values[:, rare], (ends[0][rare], ends[1][rare]), level, resamples, seed)
    if reach is None:
        ruled_out[rare] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        superiority = ((values > 0).sum(axis=0) + 0.5 * (values == 0).sum(axis=0)) / np.where(
            n > 0, n, np.nan
        )
        below, above = wilson_interval(superiority, n, level)
    return EffectSizes(
        *(mean, low, high, ruled_out, d_z, d_low, d_high),
        *(superiority, below, above, n, n_effective, mean_reason),
    )


def wilson_interval(
    share: NDArray[np.float64], size: NDArray, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval of a proportion from a (possibly effective, possibly fractional) sample size.

    Parameters
    ----------
    share : ndarray of float64
        Proportions, 0 to 1.
    size : ndarray of the same shape
        Sample sizes; of 0 or less there is no interval.
    level : float
        Of confidence, between 0 and 1.

    Returns
    -------
    low, high : ndarray of float64, of the same shape
        Within 0 and 1; NaN where there is no interval.

    Examples
    --------
    >>> low, high = wilson_interval(np.array([0.5]), np.array([10]), 0.95)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.2366, 0.7634)
    """
    size = np.where(np.asarray(size) > 0, np.asarray(size, np.float64), np.nan)
    z2 = special.ndtri((1 + level) / 2) ** 2
    middle = (share + z2 / (2 * size)) / (1 + z2 / size)
    half = np.sqrt(z2 * (share * (1 - share) / size + z2 / (4 * size**2))) / (1 + z2 / size)
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def _d_z_ends(values, d_z, mean, drawn, level) -> tuple[NDArray, NDArray]:
    """BCa ends of d_z; NaN of two prompts, where leaving one out leaves no standard deviation."""
    first, spread, rows = drawn
    with np.errstate(invalid="ignore", divide="ignore"):
        draws, error = first / rows, spread / (rows - 1)
        draws += mean
        draws /= np.sqrt(error, out=error)
        probabilities = _bca_probabilities(draws, d_z, _d_z_acceleration(values, mean), level)
        draws.sort(axis=0)
        low, high = (column_quantiles(draws, p) for p in probabilities)
    known = ~(np.isnan(low) | np.isnan(high)) & ((~np.isnan(values)).sum(axis=0) != 2)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _bca_probabilities(
    draws: NDArray[np.float64], value: NDArray[np.float64], acceleration: NDArray[np.float64], level: float
) -> NDArray[np.float64]:
    r"""Probabilities between whose bootstrap quantiles the BCa interval runs, shape (2, n_columns).

    .. math:: \Phi\left(z_0 + \frac{z_0 + z_\alpha}{1 - a (z_0 + z_\alpha)}\right)

    with :math:`\Phi(z_0)` the part of the draws below the value, those equal to it counted half; NaN where all
    draws lie on one side of it.
    """
    below = (draws < value).sum(axis=0) + 0.5 * (draws == value).sum(axis=0)
    share = below / (~np.isnan(draws)).sum(axis=0)
    bias = special.ndtri(np.where((share > 0) & (share < 1), share, np.nan))
    moved = bias + special.ndtri([[(1 - level) / 2], [(1 + level) / 2]])
    return special.ndtr(bias + moved / (1 - acceleration * moved))


def _d_z_acceleration(values: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Jackknife acceleration of d_z from the values with one row left out."""
    n = (~np.isnan(values)).sum(axis=0)
    squares = central_sums(values, mean, 2)[0]
    rounding, left_out = 1e-12 * squares, np.empty(values.shape)
    for rows in slabs(values):
        deviation = values[rows] - mean
        left = squares - deviation**2 * (n / (n - 1))
        left = np.sqrt(np.where(left > rounding, left, np.nan) / (n - 2))
        np.divide(mean - deviation / (n - 1), left, out=left_out[rows])
    count = (~np.isnan(left_out)).sum(axis=0)
    second, cubes = central_sums(left_out, exact_sum(left_out) / count, 2, 3)
    return np.where(second > 0, -cubes / (6 * second**1.5), np.nan)
