"""P-values of a family, adjusted together; what has no p-value takes no part.

`analysis.stats.permutation.sign_flip_test` adjusts by max-T from the joint distribution; this is for families of which
only the p-values are known (objects, models, measures).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

ADJUSTMENTS = ("bh", "holm", "hommel")


def adjust_p_values(p_values: ArrayLike, *, method: str = "bh") -> NDArray[np.float64]:
    """Return the p-values of one family, adjusted; NaN stays NaN and does not count as a member.

    ``bh`` (Benjamini–Hochberg) keeps the expected part of false claims among the claims at the level chosen where
    the tests are independent or positively dependent; ``holm`` keeps the probability of a single false claim, and
    ``hommel`` does, with more power, where the tests are independent or positively dependent. ValueError if a value
    lies outside 0 to 1 or the method is unknown.

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
    if method == "holm":  # statsmodels' collects garbage at each call: a tenth of a second
        order = np.argsort(p, kind="stable")
        p[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
        result[known] = p
    elif method == "hommel" and len(p):
        result[known] = multipletests(p, method="hommel")[1]
    elif len(p):
        result[known] = stats.false_discovery_control(p)
    return result


def gatekept(p_values: ArrayLike, gate: int | None) -> NDArray[np.float64]:
    """Return the p-values of one family, shape (n,), of which one hypothesis is asked first, at the place `gate`.

    The first keeps its p-value. The others are adjusted by Holm among themselves and never fall below the first's:
    they count only where it is rejected. The probability of a single false claim keeps to the level, whatever the
    dependence (serial gatekeeping: Westfall and Krishen 2001). Without a gate, or its p-value, all are adjusted by
    Holm.

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
