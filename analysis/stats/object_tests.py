"""Exact paired tests of single objects: is one generated more often for one word than for another?

All of them compare images of one prompt and seed, and take a prompt as the unit: under the null, the indicators of a
prompt could have changed places, all its seeds together. With one seed a prompt this is McNemar's exact test; with
more it is the same test on the prompt's sums, which stays valid where seeds of one prompt resemble each other. Beside
it stands the Mantel–Haenszel odds ratio, every prompt a stratum.
"""

from __future__ import annotations

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
    p_value : ndarray of float64
        NaN where undefined.
    exact : ndarray of bool
        Whether the p-value was counted; otherwise from the limiting distribution.
    informative : ndarray of int64
        Prompts at which the indicators differ.
    reason : ndarray of object (str)
        Why the p-value is NaN; empty where it is not.
    """

    p_value: NDArray[np.float64]
    exact: NDArray[np.bool_]
    informative: NDArray[np.int64]
    reason: NDArray[np.object_]


@dataclass(frozen=True)
class OddsRatios:
    """Mantel–Haenszel odds ratios of presence; arrays have shape (n_objects,), NaN where undefined.

    Attributes
    ----------
    odds_ratio, low, high : ndarray of float64
        Of the second indicator against the first; 1 is no difference. The interval takes prompts as units.
    reason : ndarray of object (str)
    """

    odds_ratio: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    reason: NDArray[np.object_]


def paired_presence_test(table: ObjectTable, first: str, second: str) -> ObjectTests:
    r"""Exact sign-flip test of :math:`T = \sum_i (x_{i2} - x_{i1})`, for every object; x counts images of prompt i.

    With one seed a prompt this is McNemar's exact test. The distribution of T under all flips is counted by
    convolution; above `EXACT_SUM` the normal one is taken.

    Parameters
    ----------
    table : ObjectTable
    first, second : str
        Indicators.

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
    # takes longer to load than all else here, and not all that imports this tests
    from scipy.stats import binom

    x1, x2 = (table.presence[:, table.column(name)] for name in (first, second))
    difference = x2 - x1
    total, spread, size, informative = (
        table.by_object(column)
        for column in (difference, difference**2, np.abs(difference), (difference != 0).astype(np.int64))
    )
    reason = reasons(table, informative > 0, table.by_object(x1 + x2))
    p_value, exact = np.full(len(table.objects), np.nan), size <= EXACT_SUM
    simple = (size == informative) & (reason == "")  # all differences are -1 or 1: binomial
    fewer = (informative - np.abs(total)) // 2
    p_value[simple] = np.minimum(1, 2 * binom.cdf(fewer, informative, 0.5))[simple]
    exact |= simple
    kinds = int(np.abs(difference).max(initial=0))
    counts = np.stack(
        [table.by_object((np.abs(difference) == d).astype(np.int64)) for d in range(1, kinds + 1)] or [total]
    )
    for place in np.flatnonzero((reason == "") & ~simple):
        if exact[place]:
            p_value[place] = _flip_tail(tuple(counts[:, place].tolist()), int(abs(total[place])))
        else:
            p_value[place] = 2 * special.ndtr(-abs(total[place]) / np.sqrt(spread[place]))
    return ObjectTests(p_value, exact & (reason == ""), informative, reason)


@cache
def _flip_tail(counts: tuple[int, ...], observed: int) -> float:
    """P(|T| >= observed) where T adds so many fair coins of ±1, so many of ±2, and so on."""
    from scipy.stats import binom

    weights = np.ones(1)
    for step, count in enumerate(counts, 1):
        if count:
            coins = np.zeros(2 * step * count + 1)
            coins[:: 2 * step] = binom.pmf(np.arange(count + 1), count, 0.5)
            weights = np.convolve(weights, coins)
    sums = np.abs(np.arange(len(weights)) - len(weights) // 2)
    return float(min(weights[sums > observed].sum() + weights[sums == observed].sum(), 1.0))


def common_odds_ratios(table: ObjectTable, first: str, second: str, *, level: float = 0.95) -> OddsRatios:
    r"""Return Mantel and Haenszel's common odds ratio of presence, every prompt a stratum.

    .. math:: \psi = \sum_i R_i / \sum_i S_i, \qquad
        \mathrm{var} \log\psi = \sum_i (R_i - \psi S_i)^2 / (\sum_i R_i)^2

    over prompts, which with one seed a prompt is 1/b + 1/c.

    Parameters
    ----------
    table : ObjectTable
        Of `analysis.stats.object_counts.object_table`.
    first, second : str
        Indicators; an odds ratio above 1 is of an object that is more often in images of the second.
    level : float
        Of confidence, between 0 and 1.

    Source
    ------
    Mantel and Haenszel 1959; Liang 1985 for the variance over prompts;
    `statsmodels.stats.contingency_tables.StratifiedTable`.

    Examples
    --------
    One image each; b = 3 prompts with the object in the second image only, c = 1 in the first only.

    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(4) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(images, [[0], [1]] * 3 + [[1], [0]], indicators="fm", objects=["hat"])
    >>> common_odds_ratios(table, "f", "m").odds_ratio.tolist()  # 3 / 1
    [3.0]
    """
    a, c = (table.presence[:, table.column(name)].astype(np.float64) for name in (second, first))
    seeds = table.seeds[table.prompt].astype(np.float64)
    size, both = 2 * seeds, a + c
    reason = reasons(table, table.by_object((a != c).astype(np.int64)) > 0, table.by_object(both))
    variance = table.by_object(both * (size - both) / (4 * (size - 1)))
    right, left = a * (seeds - c) / size, c * (seeds - a) / size
    r, s = table.by_object(right), table.by_object(left)
    sided, z = (r > 0) & (s > 0), normal_quantile(level)
    with np.errstate(invalid="ignore", divide="ignore"):
        odds = np.where(sided, r / s, np.nan)
        unbalanced = table.by_object((right - odds[table.object] * left) ** 2)
        spread = unbalanced > 1e-20 * np.nan_to_num(r) ** 2
        error = np.where(spread, np.sqrt(unbalanced) / r, np.nan)
        ends = [odds * np.exp(sign * z * error) for sign in (-1, 1)]
    never = (reason == NEVER) | (reason == NO_IMAGES) | (reason == ONE_PROMPT)
    odds, *ends = (np.where(never, np.nan, column) for column in (odds, *ends))
    known = np.where(sided, np.where(spread, "", NO_SPREAD), ONE_SIDE)
    return OddsRatios(odds, *ends, np.where(never | (variance == 0), reason, known).astype(object))


def normal_quantile(level: float) -> float:
    """Two-sided normal quantile of a level, which is a number between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    return float(special.ndtri((1 + level) / 2))


def reasons(table: ObjectTable, varies: NDArray[np.bool_], seen: NDArray) -> NDArray[np.object_]:
    """Return why each object cannot be tested, an empty text where it can, shape (n_objects,).

    `varies`: whether the indicators differ at a prompt; `seen`: images or detections of all indicators.
    """
    reason = np.where(varies, "", NO_DIFFERENCE).astype(object)
    reason[seen == 0] = NEVER
    if len(table.prompts) < 2:
        reason[:] = ONE_PROMPT if len(table.prompts) else NO_IMAGES
    return reason
