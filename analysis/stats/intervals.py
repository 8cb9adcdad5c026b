"""How sure is a mean over prompts? Bootstrap intervals for many columns at once.

The unit is the prompt: the members of a triplet share prompt and noise, and seeds share the prompt, so each
row below is one prompt (its seeds averaged) and each column is one quantity (a site at a step). Every column
sees the same resamples, so columns can be compared.

All sums are exact (`analysis.stats.exact_sums`), so a result depends on the data and the seed alone, not on blocks,
threads or the BLAS.

SciPy has the percentile and BCa intervals, for one column at a time; the tests hold this against it. The test that
belongs to it is in `analysis.stats.sign_flips`, what is built on top in `analysis.stats.effects` and
`analysis.stats.equivalence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.exact_sums import central_sums, on_grid
from analysis.stats.rare_changes import effective_prompts, few_carry, range_of, rare_ends
from analysis.stats.resampling import (
    column_blocks,
    column_quantiles,
    matrix,
    product,
    resample_counts,
    resampled_deviations,
    rows_drawn,
    studentized,
    studentized_ends,
    undefined,
)

METHODS = ("percentile", "expanded", "bca", "studentized", "envelope")
ONE_SIDED = "all resamples lie on one side of the value"


@dataclass(frozen=True)
class Interval:
    """Means over prompts with bootstrap intervals; arrays have shape (n_columns,).

    Attributes
    ----------
    mean, low, high : ndarray of float64
        In the units of the values; NaN where undefined.
    n : ndarray of int64
        Prompts that have a value.
    reason : ndarray of object (str)
        Why the interval is NaN; empty where it is not.
    level : float
        Probability that the interval is to cover.
    resamples, seed : int
        Of the bootstrap.
    method : str
        One of `METHODS`.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]
    level: float
    resamples: int
    seed: int
    method: str = "percentile"


def bootstrap_interval(
    values: ArrayLike,
    *,
    method: str = "percentile",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    chunk: int | None = None,
) -> Interval:
    r"""Return the mean of each column with a bootstrap interval over rows.

    For resample b, :math:`\bar x^{(b)} = \sum_i c_{bi} x_i / \sum_i c_{bi}` with :math:`c_b` the number of
    times each row was drawn. The ``percentile`` interval runs between the :math:`(1 \pm \mathrm{level})/2`
    quantiles over b; ``expanded`` takes the probabilities :math:`\Phi(\pm t_{n-1} \sqrt{n/(n-1)})` instead, since
    with few prompts the resamples vary too little; ``bca`` moves these probabilities by bias and acceleration
    (`bca_probabilities`); ``studentized`` takes the quantiles of
    :math:`(\bar x^{(b)} - \bar x) / \mathrm{se}^{(b)}` and turns them round at the mean; ``envelope`` takes at each
    end the outer one of ``studentized`` and Student's t. Student's t is short where the values are skewed,
    ``studentized`` where they have heavy tails, ``percentile`` and ``bca`` wherever prompts are few; the envelope
    covers in all of these (docs/validation/statistics.md) and is what the tables of gaps show. Where so few prompts
    carry the variance that resampled standard errors degenerate, it is the bounded interval of
    `analysis.stats.rare_changes` within the smallest and the largest value.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        NaN where a prompt has no value in a column; it is left out of that column alone.
    method : {"percentile", "expanded", "bca", "studentized", "envelope"}
    level : float
        Between 0 and 1.
    resamples : int
        The same for all columns, so a column's interval does not depend on which others stand beside it.
    seed : int
    chunk : int, optional
        Columns worked on at a time. Sets the memory; no result depends on it.

    Returns
    -------
    Interval
        The interval is NaN, with the reason, with fewer than two prompts and where all values are equal.

    Raises
    ------
    ValueError
        If the method is unknown, the shape, the level or the number of resamples is out of range, or a value
        is infinite.

    Source
    ------
    Efron and Tibshirani 1993, chapters 12 to 14; Hesterberg 2015 for ``expanded``; `scipy.stats.bootstrap` has
    percentile and BCa. ``envelope`` is ours.

    Examples
    --------
    A column of 0 and 1: with two prompts a resample has mean 0, 1/2 or 1 (probabilities 1/4, 1/2, 1/4).

    >>> result = bootstrap_interval([[0.0, 5.0], [1.0, 5.0]])
    >>> result.mean.tolist(), result.low.tolist(), result.high.tolist()
    ([0.5, 5.0], [0.0, nan], [1.0, nan])
    >>> result.reason.tolist()
    ['', 'the same value in every prompt']
    """
    values = matrix(values)
    if method not in METHODS:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    rows, width = values.shape
    mean, low, high = np.full((3, width), np.nan)
    n, reason = np.zeros(width, np.int64), np.full(width, "", dtype=object)
    counts = resample_counts(rows, resamples, seed) if rows > 1 else None
    for block in column_blocks(width, chunk, rows=max(resamples, rows)):
        block_values = values[:, block]
        n[block], reason[block] = (~np.isnan(block_values)).sum(axis=0), undefined(block_values)
        whole, exponent = on_grid(block_values)
        with np.errstate(invalid="ignore"):
            mean[block] = np.ldexp(whole.sum(axis=0) / n[block], exponent)
        complete = n[block] == rows
        for chosen in (complete, ~complete):
            columns = np.flatnonzero(chosen & (reason[block] == ""))
            if len(columns) and counts is not None:
                ends, failed = _ends(block_values[:, columns], counts, method, level, seed)
                place = columns + block.start
                low[place], high[place], reason[place] = *ends, failed
    return Interval(mean, low, high, n, reason, level, resamples, seed, method)


def _ends(
    values: NDArray[np.float64], counts: NDArray[np.uint16], method: str, level: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Ends of the intervals, shape (2, n_columns), and why they are NaN; columns all complete or none."""
    whole, exponent = on_grid(values)
    n = (~np.isnan(values)).sum(axis=0)
    tails = ((1 - level) / 2, (1 + level) / 2)
    reason = np.full(values.shape[1], "", dtype=object)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = whole.sum(axis=0) / n
        if method in ("studentized", "envelope"):
            mean = np.ldexp(centre, exponent)
            error = np.sqrt(central_sums(values, mean, 2)[0] / (n * (n - 1)))
            draws = studentized(*resampled_deviations(values, mean, counts))
            (ends,) = studentized_ends(draws, mean, error, n, level, outer=method == "envelope")
            ends, degenerate = (
                np.array(ends),
                few_carry(effective_prompts(values), n) & (method == "envelope"),
            )
            chosen = values[:, degenerate]
            ends[:, degenerate] = rare_ends(chosen, range_of(chosen, None), level, len(counts), seed)
            return ends, reason
        means = product(counts, whole) / rows_drawn(
            values, counts
        )  # NaN where only missing prompts are drawn
        if method == "bca":
            acceleration = _acceleration(values, np.ldexp(centre, exponent))
            probabilities = bca_probabilities(means, centre, acceleration, level)
            reason[np.isnan(probabilities[0])] = ONE_SIDED
        elif method == "expanded":
            wide = special.stdtrit(n - 1, tails[0]) * np.sqrt(n / (n - 1))
            probabilities = special.ndtr([wide, -wide])
        else:
            probabilities = np.repeat(np.array(tails)[:, None], len(n), axis=1)
        means.sort(axis=0)
        ends = np.array([column_quantiles(means, p) for p in probabilities])
    return np.ldexp(ends, exponent), reason


def _acceleration(values: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    r""":math:`\sum_i d_i^3 / 6 (\sum_i d_i^2)^{3/2}` of the deviations of each column, the jackknife's for a mean."""
    squares, cubes = central_sums(values, mean, 2, 3)
    with np.errstate(invalid="ignore", divide="ignore"):
        return cubes / (6 * squares**1.5)


def bca_probabilities(
    draws: NDArray[np.float64],
    value: NDArray[np.float64],
    acceleration: NDArray[np.float64],
    level: float,
) -> NDArray[np.float64]:
    r"""Probabilities between whose bootstrap quantiles the BCa interval runs.

    .. math:: \Phi\left(z_0 + \frac{z_0 + z_\alpha}{1 - a (z_0 + z_\alpha)}\right)

    with :math:`\Phi(z_0)` the part of the draws below the value, those equal to it counted half.

    Parameters
    ----------
    draws : ndarray of float64, shape (resamples, n_columns)
        NaN are left out.
    value, acceleration : ndarray of float64, shape (n_columns,)
    level : float

    Returns
    -------
    ndarray of float64, shape (2, n_columns)
        NaN where all draws lie on one side of the value.

    Source
    ------
    Efron 1987; `scipy.stats.bootstrap(method="BCa")`.

    Examples
    --------
    Without bias and acceleration BCa is the percentile interval.

    >>> draws = np.array([[-1.0], [0.0], [1.0]])
    >>> bca_probabilities(draws, np.array([0.0]), np.array([0.0]), 0.95).ravel().round(6).tolist()
    [0.025, 0.975]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        below = (draws < value).sum(axis=0) + 0.5 * (draws == value).sum(axis=0)
        share = below / (~np.isnan(draws)).sum(axis=0)
        bias = special.ndtri(np.where((share > 0) & (share < 1), share, np.nan))
        moved = bias + special.ndtri([[(1 - level) / 2], [(1 + level) / 2]])
        return special.ndtr(bias + moved / (1 - acceleration * moved))
