r"""Confidence sets of ratios of two means, with p-values: a set holds the ratios that its own test does not reject.

A ratio :math:`\theta` is tested by Student's statistic of :math:`E_i - \theta T_i`, whose mean is 0 where it is true
(Fieller 1954); at 0 that is the test of E alone, so that interval and p-value never contradict each other.

*Tails* are the larger of Student's t and of the bootstrap's studentized draws: the one is short where values are
skewed, the other where their tails are heavy (docs/validation/statistics.md). Where few prompts carry the variance the
bounded interval of `analysis.stats.rare_changes` is taken as well, and alone where every prompt has one ratio.

*Simultaneous*: over all columns by the distribution of the largest statistic, under the bootstrap and under sign flips
of the residuals, the larger of both tails; so one may be picked for being the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.permutation import flip_columns
from analysis.stats.rare_changes import (
    bounded_draws,
    effective_prompts,
    ends_of_draws,
    exponential_weights,
    few_carry,
    range_of,
)
from analysis.stats.resampling import matrix, moments, resample_counts, resampled_deviations, studentized

ROUNDING = 1e-12  # of the largest total: sums of effects that cancel leave as much
GRID, HALVINGS = 121, 22
FARTHEST = 1e9  # standard errors, as good as infinitely far
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RatioSets:
    """Ratios of sums with confidence sets; arrays have shape (n_columns,).

    Attributes
    ----------
    ratio : ndarray of float64
    low, high : ndarray of float64
        Of each column alone; infinite where the set has no end.
    joint_low, joint_high : ndarray of float64
        Of all columns together.
    p_value, p_adjusted : ndarray of float64
        That the ratio is 0, by the test that the sets invert: of each column alone, and over all of them.
    n : ndarray of int64
        Rows that have both.
    n_effective : ndarray of float64
        How many carry the variance; NaN where all have the same ratio.
    """

    ratio: Floats
    low: Floats
    high: Floats
    joint_low: Floats
    joint_high: Floats
    p_value: Floats
    p_adjusted: Floats
    n: NDArray[np.int64]
    n_effective: Floats


def ratio_sets(
    effects: ArrayLike,
    totals: ArrayLike,
    *,
    reach: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> RatioSets:
    r"""Return :math:`\sum_i E_i / \sum_i T_i` of each column with its sets and p-values.

    Parameters
    ----------
    effects, totals : array_like of float, shape (n_prompts, n_columns)
        NaN, in both, where a prompt has none.
    reach : array_like of float, shape (n_columns,), optional
        How far from 0 a prompt can move the ratio; by default as far as the largest total does.
    level, resamples, seed

    Returns
    -------
    RatioSets
        NaN of a column without rows or with a mean total of 0; of one row the ratio alone.

    Source
    ------
    Fieller 1954.

    Examples
    --------
    Totals that do not vary: the ratio is a mean, and the set that of Student's t or wider.

    >>> found = ratio_sets([[1.0], [2.0], [4.0], [3.0]], np.ones((4, 1)))
    >>> (
    ...     found.ratio.tolist(),
    ...     bool(found.low[0] <= 2.5 - 3.182 * 0.6455),
    ...     round(float(found.p_value[0]), 3) >= 0.03,
    ... )
    ([2.5], True, True)
    """
    effects, totals = matrix(effects), matrix(totals)
    n, total, _ = moments(totals)
    effects, totals = effects * _sign(total), totals * _sign(total)
    total, effect = np.abs(total), moments(effects)[1]
    width = effects.shape[1]
    low, high, joint_low, joint_high, p_value, p_adjusted = np.full((6, width), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(total > 0, effect / total + 0.0, np.nan)  # + 0.0: no -0
        largest = np.nanmax(np.abs(totals), axis=0, initial=0.0)
        apart = effects - ratio * totals
        apart = np.where(np.abs(apart) > ROUNDING * np.fmax(largest, 0.0), apart, 0.0)
        apart = np.where(np.isnan(effects), np.nan, apart)
        values = ratio + apart / total
        reach = largest / total if reach is None else np.asarray(reach, np.float64)
    carried = np.full(width, np.nan)
    known = np.flatnonzero(~np.isnan(ratio) & (n > 1))
    carried[known] = effective_prompts(values[:, known])
    few = few_carry(carried, n)
    varied = known[~np.isnan(carried[known])]
    if len(varied):
        pair = effects[:, varied], totals[:, varied]
        test = _Test.of(*pair, values[:, varied], few[varied], resamples, seed)
        low[varied], high[varied], p_value[varied] = test.inverted(ratio[varied], level, joint=False)
        joint_low[varied], joint_high[varied], p_adjusted[varied] = test.inverted(
            ratio[varied], level, joint=True
        )
    rare = known[few[known] | np.isnan(carried[known])]
    if len(rare):
        one, all_of_them = _bounded(values[:, rare], reach[rare], level, resamples, seed, len(known))
        low[rare], high[rare] = np.fmin(low[rare], one[0]), np.fmax(high[rare], one[1])
        joint_low[rare] = np.fmin(joint_low[rare], all_of_them[0])
        joint_high[rare] = np.fmax(joint_high[rare], all_of_them[1])
        p_value[rare] = np.fmax(p_value[rare], one[2])
        p_adjusted[rare] = np.fmax(p_adjusted[rare], all_of_them[2])
    joint_low, joint_high = np.fmin(joint_low, low), np.fmax(joint_high, high)
    p_adjusted = np.fmax(p_adjusted, p_value)
    return RatioSets(ratio, low, high, joint_low, joint_high, p_value, p_adjusted, n, carried)


def mean_sets(values: ArrayLike, *, reach: ArrayLike | None = None, **options: Any) -> RatioSets:
    """Return `ratio_sets` of means, of values (n_prompts, n_columns): every row that has a value counts once."""
    values = matrix(values)
    ones = np.where(np.isnan(values), np.nan, 1.0)
    return ratio_sets(values, ones, reach=reach, **options)


def mean_p_values(
    values: ArrayLike, *, reach: ArrayLike | None = None, resamples: int = 2000, seed: int = 0
) -> Floats:
    """Return the two-sided p-value that the mean of each column is 0, by the test that `ratio_sets` inverts.

    It is below a level where the ``envelope`` interval of that level leaves out 0. Where all values are the same,
    and no `reach` is known, it is that of sign flips, :math:`2^{1 - n}`, or 1 of zeros.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
    reach : array_like of float, shape (n_columns,), optional
        How far from 0 a value can lie; by default as far from the median as one does, as in the ``envelope`` interval
        of `analysis.stats.bootstrap`.
    resamples, seed

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        NaN with fewer than two values.
    """
    values = matrix(values)
    n, mean, _ = moments(values)
    found, carried = np.full(values.shape[1], np.nan), effective_prompts(values)
    few, known = few_carry(carried, n), n > 1
    varied = np.flatnonzero(known & ~np.isnan(carried))
    if len(varied):
        ones = np.where(np.isnan(values[:, varied]), np.nan, 1.0)
        test = _Test.of(values[:, varied], ones, values[:, varied], few[varied], resamples, seed)
        found[varied] = test.p(np.zeros((1, len(varied))), joint=False)[0]
    alike = known & np.isnan(carried) & (reach is None)
    found[alike] = np.where(mean[alike] == 0, 1.0, 2.0 ** (1 - n[alike]))
    rare = np.flatnonzero(known & (few | np.isnan(carried)) & ~alike)
    if len(rare):
        far = None if reach is None else np.asarray(reach, np.float64)[rare]
        found[rare] = np.fmax(found[rare], _bounded(values[:, rare], far, 0.5, resamples, seed, 1)[0][2])
    return found


def _sign(values: Floats) -> Floats:
    return np.where(values < 0, -1.0, 1.0)


def _bounded(
    values: Floats, reach: Floats | None, level: float, resamples: int, seed: int, columns: int
) -> tuple[tuple[Floats, Floats, Floats], tuple[Floats, Floats, Floats]]:
    """Bounded intervals with their p-values: of each column alone, and of so many together (Bonferroni)."""
    draws = bounded_draws(values, exponential_weights(len(values), resamples, seed), range_of(values, reach))
    above, below = (draws[0] <= 0).mean(axis=0), (draws[1] >= 0).mean(axis=0)
    p_value = np.minimum(1.0, 2 * np.minimum(above, below))
    alone = (*ends_of_draws(draws, level), p_value)
    together = (*ends_of_draws(draws, 1 - (1 - level) / columns), np.minimum(1.0, columns * p_value))
    return alone, together


@dataclass(frozen=True)
class _Test:
    """Student's test of each ratio, by column; the tails as the module says."""

    n: NDArray[np.int64]
    effect: Floats
    total: Floats
    effect_variance: Floats
    covariance: Floats
    total_variance: Floats
    draws: list[Floats]  # of each column, ascending
    largest: list[Floats]  # of all columns under each resample, and under each flip; ascending

    @classmethod
    def of(
        cls,
        effects: Floats,
        totals: Floats,
        values: Floats,
        few: NDArray[np.bool_],
        resamples: int,
        seed: int,
    ) -> _Test:
        n, effect, _ = moments(effects)
        total = moments(totals)[1]
        e, t = effects - effect, totals - total
        variances = [np.nansum(a * b, axis=0) / (n * (n - 1)) for a, b in ((e, e), (e, t), (t, t))]
        mean = moments(values)[1]
        drawn = studentized(
            *resampled_deviations(values, mean, resample_counts(len(values), resamples, seed))
        )
        # of few prompts resampled standard errors say nothing
        draws = [np.sort(column[~np.isnan(column) & ~rare]) for column, rare in zip(drawn.T, few)]
        largest = []
        if (~few).any():
            most = np.fmax.reduce(np.abs(drawn[:, ~few]), axis=1)
            largest.append(np.sort(most[~np.isnan(most)]))
            flips = flip_columns((values - mean)[:, ~few], permutations=resamples, seed=seed).largest
            size = n[~few].max()
            with np.errstate(divide="ignore"):  # all signs as they are: infinitely far from 0
                turned = flips * np.sqrt((size - 1) / np.maximum(size - flips**2, 0.0))
            largest.append(np.sort(turned))
        return cls(n, effect, total, *variances, draws, largest)

    def inverted(self, ratio: Floats, level: float, *, joint: bool) -> tuple[Floats, Floats, Floats]:
        """Ends of the interval about the ratio in which none is rejected, and the p-value at which it leaves out 0.

        Ratios farther off may be rejected less: they go with a total of 0, and are no shares. So the p-value is the
        least between the ratio and 0.
        """
        error = np.sqrt(self._variance(ratio)) / self.total
        angle = (np.arange(GRID) + 0.5) / GRID - 0.5
        steps = np.tan(np.pi * angle) * 3
        steps[0], steps[-1] = -FARTHEST, FARTHEST
        grid = ratio + steps[:, None] * error
        of_grid = self.p(grid, joint)
        held = of_grid > 1 - level
        columns, middle = np.arange(len(ratio)), GRID // 2
        ends = []
        for side in (1, -1):
            order, outwards = grid[::side], ~held[::side][middle::-1]
            first = middle - np.where(outwards.any(axis=0), outwards.argmax(axis=0) - 1, middle)
            outer, inner = order[np.maximum(first - 1, 0), columns], order[first, columns]
            for _ in range(HALVINGS):
                between = (outer + inner) / 2
                within = self.p(between[None], joint)[0] > 1 - level
                outer, inner = np.where(within, outer, between), np.where(within, between, inner)
            ends.append(np.where(first <= 1, -side * np.inf, inner))  # beyond 70 standard errors
        at_0 = self.p(np.zeros((1, len(ratio))), joint)[0]
        near = np.where((grid * ratio > 0) & (np.abs(grid) < np.abs(ratio)), of_grid, 1.0).min(axis=0)
        low, high = np.minimum(ends[0], ratio), np.maximum(ends[1], ratio)
        return low, high, np.minimum(at_0, near)

    def _variance(self, ratio: Floats) -> Floats:
        found = self.effect_variance - 2 * ratio * self.covariance + ratio**2 * self.total_variance
        return np.maximum(found, np.finfo(float).tiny)

    def p(self, ratio: Floats, joint: bool) -> Floats:
        """Two-sided p-values of ratios, shape (n_ratios, n_columns)."""
        error = np.sqrt(self._variance(ratio))
        x = (self.effect - ratio * self.total) / error
        # the bootstrap's statistic has the standard error at the ratio itself, where it was drawn
        own = self.effect / self.total
        linear = (own - ratio) * self.total / np.sqrt(self._variance(own))
        tail = self._joint_tail(np.abs(x), np.abs(linear)) / 2 if joint else self._tail(x, linear)
        z = np.maximum(-special.ndtri(np.minimum(tail, 0.5)), 0.0)
        return np.minimum(1.0, 2 * special.ndtr(-z))

    def _tail(self, x: Floats, linear: Floats) -> Floats:
        """Chance of a statistic as far out on the same side, the larger of Student's and the bootstrap's."""
        found = special.stdtr(self.n - 1, -np.abs(x))
        for column, draws in enumerate(self.draws):
            at = linear[:, column]
            if size := len(draws):
                above = (size - np.searchsorted(draws, at, side="left")) / size
                below = np.searchsorted(draws, at, side="right") / size
                found[:, column] = np.maximum(found[:, column], np.where(at > 0, above, below))
        return found

    def _joint_tail(self, size: Floats, linear: Floats) -> Floats:
        """Chance that any column has a statistic of this size, at least that of the column alone."""
        found = 2 * special.stdtr(self.n - 1, -size)
        for draws in self.largest:
            over = len(draws) - np.searchsorted(draws, linear, side="left")
            found = np.maximum(found, (over + 1) / (len(draws) + 1))
        return found
