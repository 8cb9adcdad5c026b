"""Can a paired difference be called absent? Tests of equivalence over prompts, many columns at once.

Not significant is no proof of absence: *equivalent* is claimed only where the data rule out every difference of δ or
more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.effects import student_interval
from analysis.stats.intervals import Interval
from analysis.stats.rare_changes import (
    FEW_CARRY,
    bounded_draws,
    effective_prompts,
    ends_of_draws,
    exponential_weights,
    few_carry,
    range_of,
)
from analysis.stats.resampling import (
    matrix,
    moments,
    resample_counts,
    resampled_deviations,
    studentized,
    studentized_ends,
)
from analysis.stats.sign_flips import sign_flip_test

EQUIVALENCE_METHODS = ("t", "sign_flip", "bootstrap", "envelope")


@dataclass(frozen=True)
class Equivalence:
    """Tests of "the mean difference lies within −δ and δ"; arrays have shape (n_columns,).

    Attributes
    ----------
    p_value : ndarray of float64
        The larger of the two one-sided p-values; small speaks for equivalence. NaN where undefined.
    low, high : ndarray of float64
        Interval of level 1 − 2α; equivalence at α is that it lies within −δ and δ (t and bootstrap).
    smallest : ndarray of float64
        The smallest δ that could have been claimed at α: the farther end of the interval from 0.
    n : ndarray of int64
    reason : ndarray of object (str)
    delta, alpha : float
    method : str
    """

    p_value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    smallest: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]
    delta: float
    alpha: float
    method: str


def equivalence_test(
    values: ArrayLike,
    delta: float,
    *,
    method: str = "t",
    reach: ArrayLike | None = None,
    alpha: float = 0.05,
    permutations: int = 10000,
    resamples: int = 2000,
    seed: int = 0,
) -> Equivalence:
    r"""Two one-sided tests that the mean of each column lies within :math:`\pm\delta`.

    Null: the mean is ≤ −δ or ≥ δ. ``t``: Student's t of :math:`\bar x \mp \delta`. ``sign_flip``: one-sided sign
    flips of :math:`x_i \pm \delta`, exact where the differences lie symmetrically about their mean. ``bootstrap``:
    studentized; the p-value is where ±δ stands among the resampled t, (1 + #) / (1 + resamples). ``envelope``: the
    larger of the p-values of ``t`` and ``bootstrap``, so that it claims where the interval of that name lies within
    ±δ; it keeps its level with skewed differences too. With a ``reach`` it also takes the p-value of the bounded
    interval, which allows for rare changes that were not drawn. Where few prompts carry the variance
    (`analysis.stats.rare_changes`) standard errors say nothing: the bounded interval decides alone, and without a
    ``reach`` the test is withheld.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        Paired differences; NaN where there is none.
    delta : float
        Above 0, in the units of the values: chosen before the data are seen.
    method : {"t", "sign_flip", "bootstrap", "envelope"}
    reach : array_like of float, shape (n_columns,), optional
        The largest difference that a prompt can have; of ``envelope``.
    alpha : float
        Of the interval of level 1 − 2α that is returned beside the p-value.
    permutations, resamples, seed : int

    Raises
    ------
    ValueError
        `method` is none of these, `delta` is not above 0, or `alpha` not between 0 and 0.5.

    Source
    ------
    Schuirmann 1987; `statsmodels.stats.weightstats.ttost_paired`.

    Examples
    --------
    >>> result = equivalence_test([[0.1], [-0.1], [0.2], [-0.2]], 1.0)
    >>> round(float(result.p_value[0]), 4), round(float(result.smallest[0]), 4)
    (0.0008, 0.2148)
    """
    values = matrix(values)
    if method not in EQUIVALENCE_METHODS:
        raise ValueError(f"method: expected one of {', '.join(EQUIVALENCE_METHODS)}, got {method!r}")
    if not (np.isfinite(delta) and delta > 0):
        raise ValueError(f"delta: expected a number above 0, got {delta}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha: expected a number between 0 and 0.5, got {alpha}")
    level = 1 - 2 * alpha
    interval = student_interval(values, level=level)
    defined = interval.reason == ""
    if method == "sign_flip":
        options = {"permutations": permutations, "seed": seed}
        above = sign_flip_test(values + delta, alternative="greater", **options).p_value
        below = sign_flip_test(values - delta, alternative="less", **options).p_value
        p_value = np.maximum(above, below)
    else:
        n, mean, sd = moments(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = sd / np.sqrt(n)
            t_above, t_below = (mean + delta) / error, (mean - delta) / error
            p_value = np.maximum(special.stdtr(n - 1, -t_above), special.stdtr(n - 1, t_below))
            if method != "t":
                drawn = resampled_deviations(values, mean, resample_counts(len(values), resamples, seed))
                draws = studentized(*drawn)
                count = (~np.isnan(draws)).sum(axis=0)
                tails = ((draws >= t_above).sum(axis=0), (draws <= t_below).sum(axis=0))
                resampled = (1 + np.maximum(*tails)) / (1 + count)
                p_value = resampled if method == "bootstrap" else np.maximum(p_value, resampled)
                ((low, high),) = studentized_ends(draws, mean, error, n, level, outer=method == "envelope")
                few = few_carry(effective_prompts(values), n) & (method == "envelope")
                if few.any() and reach is None:
                    interval.reason[few & defined] = FEW_CARRY
                    defined = interval.reason == ""
                if method == "envelope" and reach is not None:
                    weights, ends = exponential_weights(len(values), resamples, seed), range_of(values, reach)
                    tails = bounded_draws(values, weights, ends)
                    bounded_low, bounded_high = ends_of_draws(tails, level)
                    low = np.where(few, bounded_low, np.fmin(low, bounded_low))
                    high = np.where(few, bounded_high, np.fmax(high, bounded_high))
                    beyond = np.maximum((tails[0] <= -delta).sum(axis=0), (tails[1] >= delta).sum(axis=0))
                    bounded = (1 + beyond) / (1 + resamples)
                    p_value = np.where(few, bounded, np.maximum(p_value, bounded))
                low, high = (np.where(defined, end, np.nan) for end in (low, high))
                interval = Interval(mean, low, high, n, interval.reason, level, resamples, seed, method)
    p_value = np.where(defined, p_value, np.nan)
    smallest = np.maximum(np.abs(interval.low), np.abs(interval.high))
    return Equivalence(
        *(p_value, interval.low, interval.high, smallest, interval.n, interval.reason),
        *(float(delta), float(alpha), method),
    )
