"""P-values of a family, adjusted together; what has no p-value takes no part.

`analysis.stats.sign_flips.sign_flip_test` adjusts by max-T from the joint distribution; this is for families of which
only the p-values are known (objects, models, measures).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

ADJUSTMENTS = ("bh", "by", "holm", "hommel")


def adjust_p_values(p_values: ArrayLike, *, method: str = "bh") -> NDArray[np.float64]:
    r"""Adjust the p-values of one family.

    ``bh`` (Benjamini–Hochberg) keeps the expected part of false claims among the claims at the level chosen where
    the tests are independent or positively dependent, ``by`` (Benjamini–Yekutieli) under any dependence; ``holm``
    keeps the probability of a single false claim, and ``hommel`` does, with more power, where the tests are independent
    or positively dependent.

    Parameters
    ----------
    p_values : array_like of float, any shape
        NaN stays NaN and does not count as a member of the family.
    method : {"bh", "by", "holm", "hommel"}

    Returns
    -------
    ndarray of float64, same shape

    Raises
    ------
    ValueError
        If a value lies outside 0 to 1 or the method is unknown.

    Source
    ------
    `scipy.stats.false_discovery_control`, which refuses NaN; Holm 1979; Hommel 1988.

    Examples
    --------
    >>> adjust_p_values([0.01, 0.04, np.nan, 0.5]).round(4).tolist()
    [0.03, 0.06, nan, 0.5]
    """
    p_values = np.asarray(p_values, np.float64)
    if method not in ADJUSTMENTS:
        raise ValueError(f"method: expected one of {', '.join(ADJUSTMENTS)}, got {method!r}")
    known = ~np.isnan(p_values)
    p = p_values[known]
    if ((p < 0) | (p > 1)).any():
        raise ValueError("p_values: expected numbers from 0 to 1, got one outside")
    result = np.full(p_values.shape, np.nan)
    if method == "holm":  # statsmodels' takes 250 times as long as SciPy's correction below
        order = np.argsort(p, kind="stable")
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)) if len(p) else p
        result[known] = np.minimum(adjusted, 1.0)
    elif method == "hommel":
        result[known] = _hommel(p)
    elif len(p):
        result[known] = stats.false_discovery_control(p, method=method)
    return result


def _hommel(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjust by closing Simes's test: each p-value becomes the largest Simes p-value of a set that holds it."""
    ordered = np.sort(p)
    adjusted = p.copy()
    for size in range(len(p), 1, -1):
        # the set of this size with the largest p-values, and with one of the others in place of its least
        largest = ordered[len(p) - size :]
        simes = (size * largest / np.arange(1, size + 1)).min()
        rest = (size * largest[1:] / np.arange(2, size + 1)).min()
        inside = p >= largest[0]
        adjusted = np.maximum(adjusted, np.where(inside, simes, np.minimum(size * p, rest)))
    return np.minimum(adjusted, 1.0)


def gatekept(p_values: ArrayLike, gate: int | None) -> NDArray[np.float64]:
    r"""Adjust the p-values of one family of which one hypothesis is asked first.

    The first keeps its p-value. The others are adjusted by Holm among themselves and never fall below the first's:
    they count only where it is rejected. The probability of a single false claim keeps to the level, whatever the
    dependence, and the first is not paid for with power.

    Parameters
    ----------
    p_values : array_like of float, shape (n,)
        NaN stays NaN and does not count.
    gate : int or None
        Place of the first hypothesis. Where it is None, or that p-value NaN, all are adjusted by Holm.

    Source
    ------
    Serial gatekeeping: Westfall and Krishen 2001; Dmitrienko, Offen and Westfall 2003.

    Examples
    --------
    >>> gatekept([0.01, 0.001, 0.03], 0).round(4).tolist()
    [0.01, 0.01, 0.03]
    >>> gatekept([0.2, 0.001, 0.03], 0).round(4).tolist()
    [0.2, 0.2, 0.2]
    """
    p_values = np.array(p_values, np.float64)
    if gate is None or np.isnan(p_values[gate]):
        return adjust_p_values(p_values, method="holm")
    others = np.delete(np.arange(len(p_values)), gate)
    adjusted = p_values.copy()
    adjusted[others] = np.maximum(adjust_p_values(p_values[others], method="holm"), p_values[gate])
    return adjusted
