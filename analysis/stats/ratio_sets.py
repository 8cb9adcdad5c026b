r"""Confidence sets of ratios of two means, of each column alone.

A ratio :math:`\theta` is tested by Student's statistic of :math:`E_i - \theta T_i`, whose mean is 0 where it is true
(Fieller 1954); the set holds the ratios that are not rejected.

*Tails* are the larger of Student's t and of the bootstrap's studentized draws: the one is short where values are
skewed, the other where their tails are heavy (docs/validation/statistics.md). Where few prompts carry the variance the
bounded interval of `analysis.stats.rare_changes` is taken as well, and alone where every prompt has one ratio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

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


def ratio_interval(
    effects: ArrayLike, totals: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    r"""Return :math:`\sum_i E_i / \sum_i T_i` of each column with the ends of its set; infinite where there is none.

    Of effects and totals, shape (n_prompts, n_columns), NaN in both where a prompt has none. NaN of a column without
    rows or with a mean total of 0; of one row the ratio alone.

    Totals that do not vary: the ratio is a mean, and the set that of Student's t or wider.

    >>> ratio, low, high = ratio_interval([[1.0], [2.0], [4.0], [3.0]], np.ones((4, 1)))
    >>> ratio.tolist(), bool(low[0] <= 2.5 - 3.182 * 0.6455), bool(high[0] >= 2.5 + 3.182 * 0.6455)
    ([2.5], True, True)
    """
    effects, totals = matrix(effects), matrix(totals)
    n, total, _ = moments(totals)
    effects, totals = (one * np.where(total < 0, -1.0, 1.0) for one in (effects, totals))
    total, effect = np.abs(total), moments(effects)[1]
    low, high, carried = np.full((3, effects.shape[1]), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(total > 0, effect / total + 0.0, np.nan)  # + 0.0: no -0
        largest = np.nanmax(np.abs(totals), axis=0, initial=0.0)
        apart = effects - ratio * totals
        apart = np.where(np.abs(apart) > ROUNDING * np.fmax(largest, 0.0), apart, 0.0)
        apart = np.where(np.isnan(effects), np.nan, apart)
        values, reach = ratio + apart / total, largest / total
    known = np.flatnonzero(~np.isnan(ratio) & (n > 1))
    carried[known] = effective_prompts(values[:, known])
    few = few_carry(carried, n)
    varied = known[~np.isnan(carried[known])]
    if len(varied):
        test = _Test.of(
            effects[:, varied], totals[:, varied], values[:, varied], few[varied], resamples, seed
        )
        low[varied], high[varied] = test.ends(ratio[varied], level)
    rare = known[few[known] | np.isnan(carried[known])]
    if len(rare):
        weights = exponential_weights(len(values), resamples, seed)
        draws = bounded_draws(values[:, rare], weights, range_of(values[:, rare], reach[rare]))
        ends = ends_of_draws(draws, level)
        low[rare], high[rare] = np.fmin(low[rare], ends[0]), np.fmax(high[rare], ends[1])
    return ratio, low, high


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
        counts = resample_counts(len(values), resamples, seed)
        drawn = studentized(*resampled_deviations(values, moments(values)[1], counts))
        # of few prompts resampled standard errors say nothing
        draws = [np.sort(column[~np.isnan(column) & ~rare]) for column, rare in zip(drawn.T, few)]
        return cls(n, effect, total, *variances, draws)

    def ends(self, ratio: Floats, level: float) -> tuple[Floats, Floats]:
        """Ends of the interval about the ratio in which none is rejected.

        Ratios farther off may be rejected less: they go with a total of 0, and are no shares.
        """
        error = np.sqrt(self._variance(ratio)) / self.total
        angle = (np.arange(GRID) + 0.5) / GRID - 0.5
        steps = np.tan(np.pi * angle) * 3
        steps[0], steps[-1] = -FARTHEST, FARTHEST
        grid = ratio + steps[:, None] * error
        held = self._p(grid) > 1 - level
        columns, middle = np.arange(len(ratio)), GRID // 2
        ends = []
        for side in (1, -1):
            order, outwards = grid[::side], ~held[::side][middle::-1]
            first = middle - np.where(outwards.any(axis=0), outwards.argmax(axis=0) - 1, middle)
            outer, inner = order[np.maximum(first - 1, 0), columns], order[first, columns]
            for _ in range(HALVINGS):
                between = (outer + inner) / 2
                within = self._p(between[None])[0] > 1 - level
                outer, inner = np.where(within, outer, between), np.where(within, between, inner)
            ends.append(np.where(first <= 1, -side * np.inf, inner))  # beyond 70 standard errors
        return np.minimum(ends[0], ratio), np.maximum(ends[1], ratio)

    def _variance(self, ratio: Floats) -> Floats:
        found = self.effect_variance - 2 * ratio * self.covariance + ratio**2 * self.total_variance
        return np.maximum(found, np.finfo(float).tiny)

    def _p(self, ratio: Floats) -> Floats:
        """Two-sided p-values of ratios, shape (n_ratios, n_columns)."""
        x = (self.effect - ratio * self.total) / np.sqrt(self._variance(ratio))
        # the bootstrap's statistic has the standard error at the ratio itself, where it was drawn
        own = self.effect / self.total
        linear = (own - ratio) * self.total / np.sqrt(self._variance(own))
        tail = special.stdtr(self.n - 1, -np.abs(x))
        for column, draws in enumerate(self.draws):
            at = linear[:, column]
            if size := len(draws):
                above = (size - np.searchsorted(draws, at, side="left")) / size
                below = np.searchsorted(draws, at, side="right") / size
                tail[:, column] = np.maximum(tail[:, column], np.where(at > 0, above, below))
        return 2 * np.minimum(tail, 0.5)
