"""Effect sizes of paired differences: the mean itself; without units d_z and the probability of superiority."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.bootstrap import envelopes, rare_ends, resampled_columns
from analysis.stats.exact_sums import central_sums, exact_sum
from analysis.stats.proportions import wilson_interval
from analysis.stats.rare_changes import effective_prompts, few_carry, range_of
from analysis.stats.resampling import checked_level, column_quantiles, matrix, moments, studentized, undefined


@dataclass(frozen=True)
class EffectSizes:
    """Effect sizes of paired differences; arrays have shape (n_columns,), NaN where undefined.

    Attributes
    ----------
    mean, mean_low, mean_high : ndarray of float64
        Mean difference with its interval, see `bootstrap_interval`.
    ruled_out : ndarray of float64
        The smallest δ such that a mean of δ or more, either way, is ruled out at the level α = 1 - level: the farther
        end of the interval of level 1 - 2α, and of the bounded one where a reach is given. Where few prompts carry the
        variance, of the bounded one alone, and NaN without a reach.
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


def effect_sizes(
    values: ArrayLike,
    *,
    reach: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> EffectSizes:
    r"""Return effect sizes of paired differences, with intervals, all from the resamples of `bootstrap_interval`.

    The mean; :math:`d_z = \bar x / s` (Cohen 1988) and its BCa bootstrap interval over prompts (Efron 1987, as
    `scipy.stats.bootstrap`); the probability of superiority with Wilson's interval of n prompts (fewer than n effective
    ones are never assumed; ties only narrow it).

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

    Examples
    --------
    Differences 1, 2, 3: mean 2, standard deviation 1; all positive (3 of 3 by Wilson).

    >>> result = effect_sizes([[1.0], [2.0], [3.0]])
    >>> float(result.d_z[0]), float(result.superiority[0]), round(float(result.superiority_low[0]), 4)
    (2.0, 1.0, 0.4385)
    """
    values = matrix(values)
    checked_level(level)
    n, mean, sd = moments(values)
    mean_reason = undefined(values)
    defined = mean_reason == ""
    with np.errstate(invalid="ignore", divide="ignore"):
        d_z = np.where(defined, mean / np.where(sd > 0, sd, np.nan), np.nan)
    low, high, ruled_out, d_low, d_high = np.full((5, values.shape[1]), np.nan)
    n_effective = effective_prompts(values)
    few, ends, narrower = few_carry(n_effective, n), range_of(values, reach), 2 * level - 1
    for place, chosen, drawn in resampled_columns(values, mean, defined, resamples, seed):
        mean_error_n = mean[place], sd[place] / np.sqrt(n[place]), n[place]
        wide, narrow = envelopes(studentized(*drawn), *mean_error_n, level, narrower)
        low[place], high[place] = wide
        ruled_out[place] = np.abs(narrow).max(axis=0)
        d_low[place], d_high[place] = _d_z_ends(chosen, d_z[place], mean[place], drawn, level)
    rare = np.flatnonzero(few & defined)
    low[rare], high[rare] = rare_ends(values[:, rare], (ends[0][rare], ends[1][rare]), level, resamples, seed)
    if reach is None:
        ruled_out[rare] = np.nan
    else:
        bounded = np.abs(rare_ends(values, ends, narrower, resamples, seed)).max(axis=0)
        bounded = np.where(few, bounded, np.maximum(ruled_out, bounded))
        ruled_out = np.where(defined, bounded, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        superiority = ((values > 0).sum(axis=0) + 0.5 * (values == 0).sum(axis=0)) / np.where(n, n, np.nan)
    return EffectSizes(
        *(mean, low, high, ruled_out, d_z, d_low, d_high),
        *(superiority, *wilson_interval(superiority, n, level), n, n_effective, mean_reason),
    )


def _d_z_ends(values, d_z, mean, drawn, level) -> tuple[NDArray, NDArray]:
    r"""BCa ends of d_z; NaN of two prompts, where leaving one out leaves no standard deviation.

    The ends are the bootstrap's quantiles at :math:`\Phi(z_0 + (z_0 + z_\alpha) / (1 - a (z_0 + z_\alpha)))` with
    :math:`\Phi(z_0)` the part of the draws below the value, those equal to it counted half.
    """
    first, spread, rows = drawn
    with np.errstate(invalid="ignore", divide="ignore"):
        draws = (first / rows + mean) / np.sqrt(spread / (rows - 1))
        below = (draws < d_z).sum(axis=0) + 0.5 * (draws == d_z).sum(axis=0)
        share = below / (~np.isnan(draws)).sum(axis=0)
        bias = special.ndtri(np.where((share > 0) & (share < 1), share, np.nan))
        moved = bias + special.ndtri([[(1 - level) / 2], [(1 + level) / 2]])
        probabilities = special.ndtr(bias + moved / (1 - _d_z_acceleration(values, mean) * moved))
        draws.sort(axis=0)
        low, high = (column_quantiles(draws, p) for p in probabilities)
    known = ~(np.isnan(low) | np.isnan(high)) & ((~np.isnan(values)).sum(axis=0) != 2)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _d_z_acceleration(values: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Jackknife acceleration of d_z from the values with one row left out."""
    n = (~np.isnan(values)).sum(axis=0)
    squares = central_sums(values, mean, 2)[0]
    deviation = values - mean
    left = squares - deviation**2 * (n / (n - 1))
    left_out = (mean - deviation / (n - 1)) / np.sqrt(
        np.where(left > 1e-12 * squares, left, np.nan) / (n - 2)
    )
    count = (~np.isnan(left_out)).sum(axis=0)
    second, cubes = central_sums(left_out, exact_sum(left_out) / count, 2, 3)
    return np.where(second > 0, -cubes / (6 * second**1.5), np.nan)
