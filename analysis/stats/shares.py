r"""Shares of a total effect that patches carry: ratios of sums over prompts, with one bootstrap interval and its test.

A patch moves the outcome of a prompt by :math:`E_i`, the word itself moves it by :math:`T_i`; the share is

.. math:: \theta = \sum_i E_i / \sum_i T_i ,

not a mean of ratios: a prompt at which the words make next to no difference has no ratio worth averaging, and weighs
nothing here. Rows are prompts (their seeds averaged), columns patches; sums run over the prompts that have both.

*Interval*: the shares at which Student's statistic of :math:`E_i - \theta T_i` is at most c (Fieller 1954). c is the
quantile of the largest statistic of all columns among resampled prompts, at least Student's own: so an interval holds
for all columns at once. The p-value is the larger of those of effect and share, so that beside a significant one
neither interval holds 0. Where few prompts carry the variance an interval is as wide as the bounded one of
`analysis.stats.bootstrap`, by the rule that a patch moves no prompt farther than the words moved any.

*Near 0*: where the mean of :math:`T` cannot be told from 0 the share is NaN, with the reason; the effects are not.
Where it is only just told an interval may have no end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.bootstrap import bounded_means, effective_prompts, few_carry, range_of
from analysis.stats.resampling import NOTHING, ONE_PROMPT, matrix, moments, quantiles, studentized_means

NO_TOTAL = "the total effect cannot be told from 0"
ALIKE = "the same share in every prompt"
NO_END = "the total effect is only just told from 0: the share has no bound on that side"
FARTHEST = 1e9  # a statistic that no resample reaches
ROUNDING = 1e-12  # of the largest total: sums of effects that cancel leave as much
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Effects and the shares of a total effect that they are; arrays have shape (n_columns,).

    `effect` is the mean over the `n` prompts that have both effects, in units of the outcome, and `share` its part of
    the total (0: the patch does nothing; 1: all that the word does), which may lie outside of 0 to 1; intervals, which
    may have infinite ends, hold for all columns together. `p_adjusted`: effect and share are 0, over all columns. The
    `reason` says why share or interval are NaN or an end is infinite, or that all prompts have one share; else empty.
    """

    effect: Floats
    effect_low: Floats
    effect_high: Floats
    share: Floats
    low: Floats
    high: Floats
    p_adjusted: Floats
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


def shares(
    effects: ArrayLike, totals: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Shares:
    r"""Return :math:`\sum_i E_i / \sum_i T_i` of each column with an interval that holds for all columns at once.

    Of effects of each patch on each prompt, shape (n_prompts, n_columns), NaN where there is none, and what the word
    does to it (n_prompts,), in the same units. `level` is of the interval, and of the rule that tells the total effect
    from 0. ValueError if the shapes do not go together, or a value is infinite.

    Fieller 1954 for the interval of a ratio; Westfall and Young 1993 for the largest statistic.

    The patch does a quarter of what the word does, in sum.

    >>> result = shares([[1.0], [0.0], [2.0], [1.0]], [4.0, 3.0, 5.0, 4.0])
    >>> result.share.tolist(), result.effect.tolist(), bool(result.low[0] < 0.25 < result.high[0])
    ([0.25], [1.0], True)
    """
    effects, totals = matrix(effects), np.asarray(totals, np.float64)
    if totals.shape != effects.shape[:1]:
        raise ValueError(f"totals: expected shape ({len(effects)},), got {totals.shape}")
    options = {"level": level, "resamples": resamples, "seed": seed}
    significant = bool(mean_effects(totals[:, None], **options).p_adjusted[0] < 1 - level)
    missing = np.isnan(effects) | np.isnan(totals[:, None])
    effects, totals = (np.where(missing, np.nan, one) for one in (effects, totals[:, None]))
    return _tested(effects, totals if significant else np.full_like(totals, np.nan), totals, **options)


def mean_effects(effects: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Shares:
    """Return the means of effects, shape (n_prompts, n_columns), as `shares` has them, and no shares.

    >>> result = mean_effects([[1.0, 1.0], [1.2, -1.0], [0.9, 2.0], [1.1, -2.0]])
    >>> result.effect.round(2).tolist(), (result.p_adjusted < 0.05).tolist()
    ([1.05, 0.0], [True, False])
    """
    effects = matrix(effects)
    nothing = np.full_like(effects, np.nan)
    return _tested(effects, nothing, effects, level=level, resamples=resamples, seed=seed)


def _tested(
    effects: Floats, totals: Floats, reach: Floats, *, level: float, resamples: int, seed: int
) -> Shares:
    """Effects and shares of totals (NaN: there are none), where no prompt moves farther than the largest `reach`."""
    n, effect, _ = moments(effects)
    total, reach = moments(totals)[1], np.nanmax(np.abs(reach), axis=0, initial=0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share, ratios = _linear(effects, totals, reach)
        families = ((effects, effect, reach), (ratios, share, reach / np.abs(total)))
        variances = _variances(effects, totals)
        statistic = np.abs(effect) / np.sqrt(variances[0])
        p_adjusted, ends = 2 * special.stdtr(n - 1, -statistic), []
        for values, mean, farthest in families:
            known = ~np.isnan(mean) & (n > 1)
            carried = effective_prompts(values)
            few = np.isnan(carried) | few_carry(carried, n)
            largest = _largest_statistics(values[:, ~few], resamples, seed)
            critical = np.fmax(special.stdtrit(n - 1, (1 + level) / 2), _critical(largest, level))
            if len(ends):
                low, high = _fieller(effect, total, variances, critical)
            else:
                low, high = (effect + sign * critical * np.sqrt(variances[0]) for sign in (-1, 1))
            if len(largest):
                above = len(largest) - np.searchsorted(largest, statistic)
                p_adjusted[known] = np.fmax(p_adjusted, (above + 1) / (len(largest) + 1))[known]
            if len(rare := np.flatnonzero(few & known)):
                bounds = _bounded(values[:, rare], farthest[rare], level, resamples, seed, int(known.sum()))
                low[rare], high[rare] = np.fmin(low[rare], bounds[0]), np.fmax(high[rare], bounds[1])
                p_adjusted[rare] = np.fmax(p_adjusted[rare], bounds[2])
            ends += [low, high]
    reason = np.select(
        [n == 0, n == 1, np.isnan(share), np.isnan(carried), np.isinf(low) | np.isinf(high)],
        [NOTHING, ONE_PROMPT, NO_TOTAL, ALIKE, NO_END],
        "",
    ).astype(object)
    return Shares(effect, *ends[:2], share, *ends[2:], np.minimum(p_adjusted, 1.0), n, reason)


def _largest_statistics(values: Floats, resamples: int, seed: int) -> Floats:
    """The largest absolute statistic of all columns in each resample, ascending."""
    if not values.shape[1]:
        return np.empty(0)
    largest = np.fmax.reduce(np.abs(studentized_means(values, resamples, seed)), axis=1)
    return np.sort(largest[~np.isnan(largest)])


def _critical(largest: Floats, level: float) -> float:
    """The statistic above which p-values are below 1 - `level`."""
    over = int(np.ceil(np.round((1 - level) * (len(largest) + 1), 9))) - 2
    return float(largest[-1 - over]) if 0 <= over < len(largest) else FARTHEST if len(largest) else 0.0


def _variances(effects: Floats, totals: Floats) -> tuple[Floats, Floats, Floats]:
    """Variances of the mean effect and of the mean total, with their covariance between both."""
    n = (~np.isnan(effects)).sum(axis=0)
    e, t = (one - moments(one)[1] for one in (effects, totals))
    pairs = ((e, e), (e, t), (t, t))
    return tuple(np.where(n > 1, np.nansum(a * b, axis=0) / (n * (n - 1.0)), np.nan) for a, b in pairs)


def _fieller(
    effect: Floats, total: Floats, variances: tuple[Floats, Floats, Floats], critical: Floats
) -> tuple[Floats, Floats]:
    """The ends about each share of the ratios whose statistic is at most the critical one; infinite where none is."""
    of_effect, between, of_total = variances
    a, b, c = (
        x - critical**2 * y
        for x, y in ((total**2, of_total), (effect * total, between), (effect**2, of_effect))
    )
    inside = b**2 - a * c
    low, high = np.sort([(b + sign * np.sqrt(np.maximum(inside, 0.0))) / a for sign in (-1, 1)], axis=0)
    endless, above = a <= 0, effect / total >= high
    known = ~np.isnan(total)
    return (
        np.where(endless & known, np.where((inside > 0) & above, high, -np.inf), low),
        np.where(endless & known, np.where((inside > 0) & ~above, low, np.inf), high),
    )


def _bounded(
    values: Floats, reach: Floats, level: float, resamples: int, seed: int, columns: int
) -> tuple[Floats, Floats, Floats]:
    """Bounded intervals and p-values of means, of so many columns together (Bonferroni)."""
    low, high = bounded_means(values, range_of(values, reach), resamples, seed)
    p_value, tail = (
        2 * np.minimum((low <= 0).mean(axis=0), (high >= 0).mean(axis=0)),
        (1 - level) / columns / 2,
    )
    return quantiles(low, tail)[0], quantiles(high, 1 - tail)[0], columns * p_value


def _linear(effects: Floats, totals: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """The ratio of two sums, and a value of each prompt that is linear in its effects and has the ratio as its mean."""
    total = moments(totals)[1]
    ratio = moments(effects)[1] / total + 0.0  # + 0.0: no -0
    residual = effects - ratio * totals
    return ratio, ratio + np.where(np.abs(residual) <= ROUNDING * reach, 0.0, residual) / total


def beyond_floor(effects: ArrayLike, totals: ArrayLike, floor: ArrayLike, **options: Any) -> Shares:
    r"""Return how far each patch is beyond what a word of the same meaning does, and test that it is at all.

    Of effects of the patches with the word as donor, and with the synonym (`floor`), as `shares` takes them. With
    :math:`s_E, s_F` the signs of their means the margin is :math:`s_E E_i - s_F F_i`, and its share that of
    :math:`|\sum_i T_i|`; ``p_adjusted`` is 1 where the floor is the larger one.

    Both move the outcome by about 1 of 2, the second as far as a synonym does.

    >>> effects = [[1.0, 1.0], [1.5, 1.5], [0.9, 0.9], [1.1, 1.1], [0.8, 0.8], [1.2, 1.2]]
    >>> floor = [[0.0, 1.1], [0.1, 1.6], [0.0, 1.0], [0.1, 1.2], [0.0, 0.9], [0.0, 1.3]]
    >>> result = beyond_floor(effects, [2.0, 2.1, 1.9, 2.0, 2.2, 1.8], floor)
    >>> bool(result.p_adjusted[0] < 0.01), float(result.p_adjusted[1])
    (True, 1.0)
    """
    effects, floor, totals = matrix(effects), matrix(floor), np.asarray(totals, np.float64)
    missing = np.isnan(effects + floor)
    margin = np.subtract(*(_towards(np.where(missing, np.nan, one)) for one in (effects, floor)))
    result = shares(margin, _towards(totals[:, None])[:, 0], **options)
    return replace(result, p_adjusted=np.where(result.effect <= 0, 1.0, result.p_adjusted))


def largest_floor(floors: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    """Return, column by column, the floor of the synonym whose mean effect is the largest either way, and which it is.

    Of floors (n_synonyms, n_prompts, n_columns): shapes (n_prompts, n_columns) and (n_columns,).
    """
    floors = np.asarray(floors, np.float64)
    sizes = np.array([np.abs(moments(one)[1]) for one in floors])
    chosen = np.where(np.isnan(sizes), -1.0, sizes).argmax(axis=0)
    return np.take_along_axis(floors, chosen[None, None, :], axis=0)[0], chosen


def _towards(values: Floats) -> Floats:
    """The columns, turned so that their means are not negative."""
    return values * np.where(moments(values)[1] < 0, -1.0, 1.0)
