"""How far the means of some groups (templates) lie apart at most, over units (texts) that every group has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.rare_changes import unseen_share

ONE_GROUP = "fewer than two groups with values of the same units"
ONE_UNIT = "one unit: nothing says how far its values vary"
CONSTANT = "a difference of two groups is the same at every unit"
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RangeOfMeans:
    """The range of the means of groups.

    Attributes
    ----------
    means : ndarray of float64, shape (n_groups,)
        Over the units that all groups have; NaN of a group without any value.
    lowest, highest : int
        Groups with the smallest and the largest mean, the first of several; -1 without groups.
    range : float
        Their difference.
    low, high : float
        Between them the range of the true means lies; NaN with a `reason`.
    units : int
        Those that all groups have.
    reason : str
        Why there is no range or no interval; empty where there is one.
    """

    means: NDArray[np.float64]
    lowest: int
    highest: int
    range: float
    low: float
    high: float
    units: int
    reason: str


def range_of_means(values: ArrayLike, *, level: float = 0.95, width: float = np.nan) -> RangeOfMeans:
    r"""Return the range of the means of groups with an interval over units.

    The differences :math:`d_{gh}` of every two groups have paired t intervals over units that hold together
    (Bonferroni). Where all do, the largest true difference lies between the largest lower end of a size
    :math:`|d_{gh}|` and the largest upper end: unlike the interval of the two groups that happen to lie farthest apart,
    this one knows that they were chosen.

    Parameters
    ----------
    values : array_like of float, shape (n_groups, n_units)
        NaN where there is none. A group without any takes no part; a unit counts that all others have.
    level : float
    width : float
        The largest difference that two values can have. A difference that is the same at every unit may be another
        at units that were not seen (`analysis.stats.rare_changes.unseen_share`); without a width there is no interval.

    Raises
    ------
    ValueError
        `values` has another number of axes, or `level` is none.

    Source
    ------
    `scipy.stats.ttest_rel(...).confidence_interval`; Miller 1981, Simultaneous statistical inference, section 2.1.

    Examples
    --------
    >>> found = range_of_means([[0.1, 0.2, 0.3, 0.2], [0.5, 0.6, 0.6, 0.7]])
    >>> found.lowest, found.highest, round(found.range, 3), round(found.low, 3), round(found.high, 3)
    (0, 1, 0.4, 0.27, 0.53)
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 2:
        raise ValueError(f"values: expected shape (n_groups, n_units), got {table.shape}")
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    groups = np.flatnonzero(~np.isnan(table).all(axis=1))
    shared = table[groups][:, ~np.isnan(table[groups]).any(axis=0)]
    means = np.full(len(table), np.nan)
    units = shared.shape[1] if len(groups) else 0
    if len(groups) < 2 or units < 1:
        return RangeOfMeans(means, -1, -1, np.nan, np.nan, np.nan, units, ONE_GROUP)
    means[groups] = shared.mean(axis=1)
    lowest, highest = int(np.nanargmin(means)), int(np.nanargmax(means))
    found = float(means[highest] - means[lowest])
    low, high, reason = _ends(shared, 1 - level, width)
    return RangeOfMeans(means, lowest, highest, found, low, high, units, reason)


def _ends(shared: NDArray[np.float64], alpha: float, width: float) -> tuple[float, float, str]:
    """Ends of the interval of the range, and why there is none."""
    pairs = list(combinations(range(len(shared)), 2))
    units = shared.shape[1]
    if units < 2:
        return np.nan, np.nan, ONE_UNIT
    apart = np.array([shared[one] - shared[other] for one, other in pairs])
    alone = alpha / len(pairs)
    middle = apart.mean(axis=1)
    half = special.stdtrit(units - 1, 1 - alone / 2) * apart.std(axis=1, ddof=1) / np.sqrt(units)
    scale = width if np.isfinite(width) else max(1.0, float(np.abs(apart).max()))
    constant = np.ptp(apart, axis=1) <= _ROUNDING * scale
    if constant.any():
        if not np.isfinite(width):
            return np.nan, np.nan, CONSTANT
        half[constant] = float(unseen_share(units, alpha=alone)) * 2 * width
    size = np.abs(middle)
    low = max(0.0, float((size - half).max()))
    high = float((size + half).max())
    return low, min(high, width) if np.isfinite(width) else high, ""
