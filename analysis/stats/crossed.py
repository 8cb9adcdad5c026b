r"""A mean over samples that are crossed with each other, such as prompts and the seeds of a noise that they share.

With `sampler.noise: shared` every prompt of a seed is drawn from the same noise, so that the prompts of a seed lean
together, and more prompts do not remove it. The variance of the mean over n prompts and S seeds is

.. math:: V_p + V_s, \qquad V_p = \frac{s_p^2}{n}, \quad V_s = \frac{s_s^2}{S} - \frac{s_{ps}^2}{nS}

with :math:`s_p^2` that of the prompts' means, :math:`s_s^2` that of the seeds' means and :math:`s_{ps}^2` what prompt
and seed leave unexplained, which both of the others hold (Cameron, Gelbach and Miller's sum). Each part keeps the
quantile of Student's t of its own degrees of freedom, n − 1 and S − 1. Few seeds give wide intervals; with two
:math:`s_s^2` is too uncertain for anything to be taken off it (7 to 9 % rejections at a nominal 5), and with one it is
unknown: below three there is no interval and no p-value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.resampling import NOTHING, ONE_PROMPT, checked_level, exact_sum

FEWEST_SEEDS = 3
FEW_SEEDS = "shared noise: the prompts of a seed depend on each other, three seeds are needed"
CONSTANT = "the same value at every prompt and seed"

Parts = list[
    tuple[NDArray[np.float64], int | NDArray[np.int64]]
]  # variances, each with its degrees of freedom


@dataclass(frozen=True)
class CrossedMean:
    """A mean over prompts and seeds, both of them samples; arrays have shape (n_columns,), NaN where undefined.

    `low` and `high` are an interval for other prompts and other seeds, `p_value` is of a mean of 0, two-sided;
    `prompts` and `seeds` are the variance of the mean that they bring; `n` are the prompts that have a value at every
    seed. The `reason` says why the interval is NaN, and but for one value everywhere the p-value.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    prompts: NDArray[np.float64]
    seeds: NDArray[np.float64]
    n: NDArray[np.int64]
    n_seeds: int
    reason: NDArray[np.object_]

    def p_equivalent(self, delta: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return p-values of the test that the mean lies within ±delta; NaN where nothing can be inferred."""
        parts = [(self.prompts, np.maximum(self.n - 1, 1)), (self.seeds, max(self.n_seeds - 1, 1))]
        room = delta - np.abs(self.mean)
        both = crossed_p_value(room**2, parts) / 2
        return np.where(self.reason == "", np.where(room > 0, both, 1 - both), np.nan)


def crossed_mean(values: ArrayLike, *, level: float = 0.95) -> CrossedMean:
    """Return the mean over prompts and seeds that are crossed: every prompt has the same seeds.

    Of values (n_prompts, n_seeds, n_columns), NaN where there is none; a prompt that lacks a seed is left out of that
    column. ValueError for a level that is no number between 0 and 1. Cameron, Gelbach and
    Miller 2011 for the sum of variances; Banerjee 1960 for the quantiles.

    Two prompts, three seeds, and all that differs is the seed: the mean 2 has the error of three values, 1, 2 and 3.

    >>> result = crossed_mean([[[1.0], [2.0], [3.0]]] * 2)
    >>> float(result.mean[0]), round(float(result.high[0]) - 2, 3)  # 4.3027 * sqrt(1 / 3)
    (2.0, 2.484)
    """
    values = np.asarray(values, np.float64)
    checked_level(level)
    n_seeds, whole = values.shape[1], ~np.isnan(values).any(axis=1)
    n = whole.sum(axis=0)
    values = np.where(whole[:, None], values, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        over_seeds = values.mean(axis=1)
        mean = exact_sum(over_seeds) / n
    prompts, seeds = crossed_variances(values, n)
    parts = [(prompts, np.maximum(n - 1, 1)), (seeds, max(n_seeds - 1, 1))]
    reason = np.where(prompts + seeds > (1e-12 * mean) ** 2, "", CONSTANT).astype(object)  # rounding
    reason[n == 1] = ONE_PROMPT
    reason[n == 0] = NOTHING
    if n_seeds < FEWEST_SEEDS:
        reason[n > 0] = FEW_SEEDS
    columns = np.sqrt(crossed_bound(1 - level, parts)), crossed_p_value(mean**2, parts)
    half, p_value = (np.where(reason == "", column, np.nan) for column in columns)
    flips = (reason == CONSTANT) & (
        mean != 0
    )  # of the signs of prompts or of seeds, whichever are fewer: exact
    p_value = np.where(flips, 0.5 ** (np.minimum(n, n_seeds) - 1), p_value)
    return CrossedMean(
        mean=mean,
        low=mean - half,
        high=mean + half,
        p_value=p_value,
        prompts=prompts,
        seeds=seeds,
        n=n,
        n_seeds=n_seeds,
        reason=reason,
    )


def crossed_variances(
    values: NDArray[np.float64], n: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variance of the mean that prompts bring, and that seeds bring beyond it, shape (n_columns,) each.

    Of values (n_prompts, n_seeds, n_columns), a prompt NaN at every seed or at none, and n prompts with values.
    """
    n_seeds = values.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        over_seeds = values.mean(axis=1)
        mean = exact_sum(over_seeds) / n
        prompts = exact_sum((over_seeds - mean) ** 2) / (n - 1) / n
        if n_seeds == 1:
            return prompts, np.zeros(len(n))
        lean = np.array([exact_sum(values[:, seed] - over_seeds) / n for seed in range(n_seeds)])
        seeds = (lean**2).sum(axis=0) / (n_seeds - 1) / n_seeds
        left = np.zeros(len(n))
        for seed in range(n_seeds):
            left = left + exact_sum((values[:, seed] - over_seeds - lean[seed]) ** 2)
        left = left / ((n_seeds - 1) * (n - 1)) / n / n_seeds
        # what both hold is taken off once, and never so much that the sum falls below the seeds' part alone
        return prompts, np.maximum.reduce([seeds - left, seeds - prompts, np.zeros(len(n))])


def satterthwaite(parts: Sequence[tuple]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return the sum of independent variances, and its degrees of freedom (Satterthwaite 1946, Eq. 17).

    .. math:: f = \frac{(\sum V)^2}{\sum V^2 / f_V}

    A part is a variance, its degrees of freedom (without any it counts in the sum alone) and what stands for it in the
    denominator, where that is not itself; one degree where all variances are 0.
    """
    total, below = 0.0, 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        for variance, degrees, *weight in parts:
            weight = weight[0] if weight else variance
            total = total + variance
            below = below + np.where((weight > 0) & (np.asarray(degrees) > 0), weight**2 / degrees, 0.0)
        return total, np.where(below > 0, total**2 / below, 1.0)


def crossed_bound(alpha: float | NDArray[np.float64], variances: Parts) -> NDArray[np.float64]:
    r"""Return :math:`\sum V t_f(\alpha)^2`, two-sided: the square of the largest mean not rejected (Banerjee 1960)."""
    return sum(
        variance * special.stdtrit(np.maximum(degrees, 1), alpha / 2) ** 2 for variance, degrees in variances
    )


def crossed_p_value(square: NDArray[np.float64], variances: Parts) -> NDArray[np.float64]:
    """Return the α, 1e-16 to 1, at which `crossed_bound` is the square, by bisection of its logarithm."""
    low, high = np.full(len(square), np.log(1e-16)), np.zeros(len(square))
    for _ in range(50):
        middle = (low + high) / 2
        above = crossed_bound(np.exp(middle), variances) > square
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(high)
