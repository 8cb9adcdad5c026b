"""Mantel and Haenszel's common odds ratio of presence, every prompt a stratum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import NEVER, normal_quantile, reasons
from analysis.stats.permutation import NO_IMAGES
from analysis.stats.resampling import ONE_PROMPT

ONE_SIDE = "odds ratio: no prompt speaks for one of the two sides"
NO_SPREAD = "odds ratio: no variation between prompts to take an interval from"


@dataclass(frozen=True)
class OddsRatios:
    """Odds ratios of presence of the second indicator against the first, with intervals; NaN where undefined."""

    odds_ratio: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    reason: NDArray[np.object_]


def common_odds_ratios(table: ObjectTable, first: str, second: str, *, level: float = 0.95) -> OddsRatios:
    r"""Return Mantel and Haenszel's common odds ratio of presence, every prompt a stratum.

    .. math:: \psi = \sum_i R_i / \sum_i S_i, \qquad
        \mathrm{var} \log\psi = \sum_i (R_i - \psi S_i)^2 / (\sum_i R_i)^2

    over prompts (Liang 1985), which with one seed a prompt is 1/b + 1/c. Above 1 the object is more often in images of
    the second word.
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
