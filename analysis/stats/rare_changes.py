r"""Where few prompts differ: how many prompts carry a difference, what they cannot have seen, and a bounded interval.

A mean over prompts that mostly do not change rests on the few that do. Intervals that estimate a variance then fail
both ways: where one prompt of 24 changed, a third of the resamples do not hold it, their standard errors are next to
nothing and the studentized interval explodes; where none changed, the interval is as narrow as the noise, and a rare
change is ruled out that was only not drawn.

*Effective number of prompts*: :math:`(\sum e_i^2)^2 / \sum e_i^4` of the deviations from the mean: n where all are
alike, about n/3 where they are normal, about k where k prompts changed. Below `FEWEST` more than one resample in forty
(:math:`e^{-3.7}`) holds none of the prompts that carry the difference.

*Unseen*: a kind of prompt that is missing among n prompts is at most :math:`1 - 0.05^{1/n} \approx 3/n` of all prompts,
with 95 % confidence (the rule of three).

*Bounded*: if no prompt differs by more than a known reach, the mean is bounded without any variance: by the quantile of
a Bayesian bootstrap over the n prompts and one further prompt at the end of the range. It keeps its level whatever the
distribution (Gaffke 2005), and where no prompt changed it is the rule of three times the reach.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.resampling import central_sums, exact_sum, matrix

FEWEST = 4.0  # effective prompts below which resampled standard errors degenerate
SHARE = 0.25  # of few prompts, so many suffice
RARE_STREAM = 4  # beside the streams of `analysis.resampling`
UNIT = 1024  # weights are whole multiples of 1 / UNIT, so that sums are exact


def effective_prompts(values: ArrayLike) -> NDArray[np.float64]:
    r"""Return how many prompts carry the variance of each column, :math:`(\sum e_i^2)^2 / \sum e_i^4`.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        NaN is left out.

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        From 1 to the number of prompts with a value; NaN where all values are equal.

    Examples
    --------
    Four values that differ from their mean alike; and one of four that differs from the others.

    >>> effective_prompts([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 1.0]]).round(4).tolist()
    [4.0, 1.7143]
    """
    values = matrix(values)
    n = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = exact_sum(values) / n
        mean = np.where(np.ptp(np.where(np.isnan(values), mean, values), axis=0) > 0, mean, np.nan)
        largest = np.nanmax(np.abs(values - mean), axis=0, initial=0.0)
        squares, fourth = central_sums(
            (values - mean) / np.where(largest > 0, largest, np.nan), 0.0, 2, 4
        )  # in units of the largest, which a fourth power of small numbers needs
        return np.where(np.isnan(mean), np.nan, squares**2 / fourth)


def few_carry(n_effective: NDArray[np.float64], n: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say for each column whether too few prompts carry its variance for a standard error to be resampled.

    Fewer than `FEWEST`, or than `SHARE` of the prompts where that is less.

    Examples
    --------
    >>> few_carry(np.array([3.9, 4.1, 2.5, np.nan]), np.array([24, 24, 8, 24])).tolist()
    [True, False, False, False]
    """
    return n_effective < np.minimum(FEWEST, SHARE * n)


def unseen_share(n: ArrayLike, *, alpha: float = 0.05) -> NDArray[np.float64]:
    r"""Return the largest share that a kind of prompt can have which none of n prompts is, :math:`1 - \alpha^{1/n}`.

    The rule of three, 3 / n, in its exact form; 1 where there is no prompt.

    Source
    ------
    Clopper and Pearson 1934, of 0 of n; Hanley and Lippman-Hand 1983.

    Examples
    --------
    >>> unseen_share([0, 1, 24, 100]).round(4).tolist()
    [1.0, 0.95, 0.1173, 0.0295]
    """
    n = np.asarray(n, np.float64)
    return np.where(n > 0, -np.expm1(np.log(alpha) / np.maximum(n, 1)), 1.0)
