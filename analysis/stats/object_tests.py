"""Exact paired tests of single objects: is one generated more often for one word than for another?

All of them compare images of one prompt and seed, and take a prompt as the unit: under the null, the indicators of a
prompt could have changed places, all its seeds together. With one seed a prompt this is McNemar's exact test; with
more it is the same test on the prompt's sums, which stays valid where seeds of one prompt resemble each other. The
Cochran–Mantel–Haenszel test beside them takes the seeds of a prompt as independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.object_counts import ObjectTable
from analysis.stats.resampling import ONE_PROMPT

NEVER = "never detected"
NO_DIFFERENCE = "the same in all indicators at every prompt"
ONE_SIDE = "odds ratio: no prompt speaks for one of the two sides"
NO_SPREAD = "odds ratio: no variation between prompts to take an interval from"
NO_IMAGES = "no images"
EXACT_SUM = 2000  # largest sum of absolute differences whose distribution is counted


@dataclass(frozen=True)
class ObjectTests:
    """One test an object; arrays have shape (n_objects,).

    Attributes
    ----------
    statistic, p_value : ndarray of float64
        NaN where undefined.
    exact : ndarray of bool
        Whether the p-value was counted; otherwise from the limiting distribution.
    informative : ndarray of int64
        Prompts at which the indicators differ.
    reason : ndarray of object (str)
        Why the p-value is NaN; empty where it is not.
    """

    statistic: NDArray[np.float64]
    p_value: NDArray[np.float64]
    exact: NDArray[np.bool_]
    informative: NDArray[np.int64]
    reason: NDArray[np.object_]


@dataclass(frozen=True)
class StratifiedTests:
    """Cochran–Mantel–Haenszel tests and common odds ratios; arrays have shape (n_objects,), NaN where undefined.

    Attributes
    ----------
    statistic, p_value : ndarray of float64
        Chi-square with one degree of freedom; takes the seeds of a prompt as independent.
    statistic_prompts, p_value_prompts : ndarray of float64
        The same excess over its variance between prompts, which does not.
    odds_ratio, low, high : ndarray of float64
        Of presence for the second indicator against the first; 1 is no difference. The interval takes prompts as
        units (variance over prompts).
    low_independent, high_independent : ndarray of float64
        With the variance of Robins, Breslow and Greenland, which takes all images as independent given the prompt.
    reason : ndarray of object (str)
    """

    statistic: NDArray[np.float64]
    p_value: NDArray[np.float64]
    statistic_prompts: NDArray[np.float64]
    p_value_prompts: NDArray[np.float64]
    odds_ratio: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    low_independent: NDArray[np.float64]
    high_independent: NDArray[np.float64]
    reason: NDArray[np.object_]


def paired_presence_test(
    table: ObjectTable, first: str, second: str, *, of: str = "presence", mid_p: bool = False
) -> ObjectTests:
    r"""Exact sign-flip test of :math:`T = \sum_i (x_{i2} - x_{i1})`, for every object; x counts images of prompt i.

    With one seed a prompt this is McNemar's exact test. The distribution of T under all flips is counted by
    convolution; above `EXACT_SUM` the normal one is taken.

    Parameters
    ----------
    table : ObjectTable
    first, second : str
        Indicators.
    of : {"presence", "detections"}
    mid_p : bool
        Count the observed T half. Less conservative where few prompts differ, and no longer exact.

    Source
    ------
    McNemar 1947; `scipy.stats.binomtest` with one seed, `scipy.stats.permutation_test` with more.

    Examples
    --------
    A hat at five prompts, each time in the second image only: 2 of 32 flips are as far from 0.

    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(5) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(images, [[0], [1]] * 5, indicators="fm", objects=["hat"])
    >>> paired_presence_test(table, "f", "m").p_value.tolist()
    [0.0625]
    """
    values = table.values(of)
    from scipy.stats import (
        binom,
    )  # takes longer to load than all else here, and not all that imports this tests

    difference = values[:, table.column(second)] - values[:, table.column(first)]
    n_objects = len(table.objects)
    total, spread, informative = (
        table.by_object(column) for column in (difference, difference**2, (difference != 0).astype(np.int64))
    )
    size = table.by_object(np.abs(difference))
    reason = reasons(table, informative, values[:, [table.column(first), table.column(second)]])
    p_value, exact = np.full(n_objects, np.nan), size <= EXACT_SUM
    simple = (size == informative) & (reason == "")  # all differences are -1 or 1: binomial
    fewer = (informative - np.abs(total)) // 2
    if mid_p:
        point = binom.pmf(fewer, informative, 0.5)
        p_value[simple] = (np.minimum(1, 2 * binom.cdf(fewer, informative, 0.5)) - point)[simple]
        p_value[simple & (total == 0)] = (1 - point / 2)[simple & (total == 0)]
    else:
        p_value[simple] = np.minimum(1, 2 * binom.cdf(fewer, informative, 0.5))[simple]
    exact |= simple
    kinds = int(np.abs(difference).max(initial=0))
    counts = np.stack(
        [table.by_object((np.abs(difference) == d).astype(np.int64)) for d in range(1, kinds + 1)] or [total]
    )
    for place in np.flatnonzero((reason == "") & ~simple):
        if exact[place]:
            p_value[place] = _flip_tail(tuple(counts[:, place].tolist()), int(abs(total[place])), mid_p)
        else:
            p_value[place] = 2 * special.ndtr(-abs(total[place]) / np.sqrt(spread[place]))
    statistic = np.where(reason == "", total, np.nan).astype(np.float64)
    return ObjectTests(statistic, p_value, exact & (reason == ""), informative, reason)


@cache
def _flip_tail(counts: tuple[int, ...], observed: int, mid_p: bool) -> float:
    """P(|T| >= observed) where T adds so many fair coins of ±1, so many of ±2, and so on."""
    from scipy.stats import binom

    weights = np.ones(1)
    for step, count in enumerate(counts, 1):
        if count:
            coins = np.zeros(2 * step * count + 1)
            coins[:: 2 * step] = binom.pmf(np.arange(count + 1), count, 0.5)
            weights = np.convolve(weights, coins)
    sums = np.abs(np.arange(len(weights)) - len(weights) // 2)
    tail = weights[sums > observed].sum() + (0.5 if mid_p else 1.0) * weights[sums == observed].sum()
    return float(min(tail, 1.0))


def cochran_mantel_haenszel(
    table: ObjectTable, first: str, second: str, *, level: float = 0.95, correction: bool = False
) -> StratifiedTests:
    r"""Cochran–Mantel–Haenszel test and common odds ratio of presence, every prompt a stratum.

    The test takes the seeds of a prompt as independent. The one over prompts, :math:`(\sum_i e_i)^2 / \sum_i e_i^2`
    with :math:`e_i` the excess of stratum i, and the interval of the odds ratio do not:
    :math:`\mathrm{var} \log\psi = \sum_i (R_i - \psi S_i)^2 / (\sum_i R_i)^2` over prompts, which with one seed a
    prompt is 1/b + 1/c.

    Parameters
    ----------
    table : ObjectTable
        Of `analysis.stats.object_counts.object_table`.
    first, second : str
        Indicators; an odds ratio above 1 is of an object that is more often in images of the second.
    level : float
        Of confidence, between 0 and 1.
    correction : bool
        Whether the test has the correction for continuity.

    Source
    ------
    Mantel and Haenszel 1959; Robins, Breslow and Greenland 1986; Liang 1985 for the variance over prompts;
    `statsmodels.stats.contingency_tables.StratifiedTable`.

    Examples
    --------
    One image each; b = 3 prompts with the object in the second image only, c = 1 in the first only.

    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(4) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(images, [[0], [1]] * 3 + [[1], [0]], indicators="fm", objects=["hat"])
    >>> result = cochran_mantel_haenszel(table, "f", "m")
    >>> result.statistic.tolist(), result.odds_ratio.tolist()  # (3 - 1)² / (3 + 1), 3 / 1
    ([1.0], [3.0])
    """
    a, c = (table.presence[:, table.column(name)].astype(np.float64) for name in (second, first))
    seeds = table.seeds[table.prompt].astype(np.float64)
    size, both = 2 * seeds, a + c
    differs = (a != c).astype(np.int64)
    reason = reasons(table, table.by_object(differs), np.stack([a, c], axis=1))
    excess = table.by_object((a - c) / 2)
    variance = table.by_object(both * (size - both) / (4 * (size - 1)))
    z = normal_quantile(level)
    right, left = a * (seeds - c) / size, c * (seeds - a) / size
    agree, disagree = (a + seeds - c) / size, (c + seeds - a) / size
    r, s = table.by_object(right), table.by_object(left)
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.maximum(np.abs(excess) - (0.5 if correction else 0.0), 0)
        statistic = np.where(variance > 0, distance**2 / variance, np.nan)
        between = table.by_object(((a - c) / 2) ** 2)
        over_prompts = np.where(between > 0, distance**2 / between, np.nan)
        sided = (r > 0) & (s > 0)
        odds = np.where(sided, r / s, np.nan)
        unbalanced = table.by_object((right - odds[table.object] * left) ** 2)
        error = np.sqrt(unbalanced) / r
        independent = np.sqrt(
            table.by_object(agree * right) / (2 * r**2)
            + table.by_object(agree * left + disagree * right) / (2 * r * s)
            + table.by_object(disagree * left) / (2 * s**2)
        )
        spread = unbalanced > 1e-20 * np.nan_to_num(r) ** 2
        error = np.where(spread, error, np.nan)
        ends = [odds * np.exp(sign * z * width) for width in (error, independent) for sign in (-1, 1)]
    never = (reason == NEVER) | (reason == NO_IMAGES) | (reason == ONE_PROMPT)
    statistic, over_prompts = (np.where(never, np.nan, column) for column in (statistic, over_prompts))
    odds, *ends = (np.where(never, np.nan, column) for column in (odds, *ends))
    known = np.where(sided, np.where(spread, "", NO_SPREAD), ONE_SIDE)
    reason = np.where(never | (variance == 0), reason, known).astype(object)
    tests = (statistic, special.chdtrc(1, statistic), over_prompts, special.chdtrc(1, over_prompts))
    return StratifiedTests(*tests, odds, *ends, reason)


def normal_quantile(level: float) -> float:
    """Two-sided normal quantile of a level.

    Raises
    ------
    ValueError
        `level` is no number between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    return float(special.ndtri((1 + level) / 2))


def reasons(table: ObjectTable, informative: NDArray, values: NDArray | Sequence) -> NDArray[np.object_]:
    """Return why each object cannot be tested, shape (n_objects,); an empty text where it can.

    Parameters
    ----------
    table : ObjectTable
    informative : ndarray of int, shape (n_objects,)
        Prompts at which the indicators differ.
    values : array_like, shape (n_cells, k)
        Images or detections of each cell of the table and indicator.
    """
    reason = np.full(len(table.objects), "", dtype=object)
    reason[informative == 0] = NO_DIFFERENCE
    reason[table.by_object(np.asarray(values).sum(axis=1).astype(np.float64)) == 0] = NEVER
    if len(table.prompts) == 1:
        reason[:] = ONE_PROMPT
    if len(table.prompts) == 0:
        reason[:] = NO_IMAGES
    return reason
