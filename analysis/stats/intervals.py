"""How sure is a mean over prompts? Bootstrap intervals for many columns at once.

The unit is the prompt: the members of a triplet share prompt and noise, and seeds share the prompt, so each
row below is one prompt (its seeds averaged) and each column is one quantity (a site at a step). Every column
sees the same resamples, so columns can be compared.

All sums are exact (`analysis.stats.exact_sums`), so a result depends on the data and the seed alone, not on blocks,
threads or the BLAS.

The test that belongs to it is in `analysis.stats.sign_flips`, what is built on top in `analysis.stats.effects` and
`analysis.stats.equivalence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.exact_sums import central_sums
from analysis.stats.rare_changes import effective_prompts, few_carry, range_of, rare_ends
from analysis.stats.resampling import (
    column_blocks,
    matrix,
    moments,
    resample_counts,
    resampled_deviations,
    studentized,
    studentized_ends,
    undefined,
)


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
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


def bootstrap_interval(
    values: ArrayLike,
    *,
    reach: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""Return the mean of each column with its envelope interval over rows.

    For resample b, :math:`\bar x^{(b)} = \sum_i c_{bi} x_i / \sum_i c_{bi}` with :math:`c_b` the number of times each
    row was drawn. The studentized interval takes the quantiles of
    :math:`(\bar x^{(b)} - \bar x) / \mathrm{se}^{(b)}` and turns them round at the mean; the envelope is at each end
    the outer one of it and of Student's t. Student's t is short where the values are skewed, the studentized interval
    where they have heavy tails; the envelope covers in both (docs/validation/statistics.md). Where so few prompts
    carry the variance that resampled standard errors degenerate, it is the bounded interval of
    `analysis.stats.rare_changes` within the smallest and the largest value.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        NaN where a prompt has no value in a column; it is left out of that column alone.
    reach : array_like of float, shape (n_columns,), optional
        The largest difference that a prompt can have, for which the bounded interval then allows.
    level : float
        Between 0 and 1.
    resamples, seed : int
        The same for all columns, so a column's interval does not depend on which others stand beside it.

    Returns
    -------
    Interval
        The interval is NaN, with the reason, with fewer than two prompts and where all values are equal.

    Raises
    ------
    ValueError
        If the shape, the level or the number of resamples is out of range, or a value is infinite.

    Source
    ------
    Efron and Tibshirani 1993, chapter 12, for the studentized interval; the envelope is ours.

    Examples
    --------
    At least as wide as Student's t, 2.5 ± 3.1824 · 0.6455; a column of equal values has none.

    >>> result = bootstrap_interval([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [3.0, 5.0]])
    >>> result.mean.tolist(), bool(result.low[0] <= 0.4457), bool(result.high[0] >= 4.5543)
    ([2.5, 5.0], True, True)
    >>> result.reason.tolist()
    ['', 'the same value in every prompt']
    """
    values = matrix(values)
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    rows, width = values.shape
    n, mean, _ = moments(values)
    low, high = np.full((2, width), np.nan)
    reason = undefined(values)
    defined = reason == ""
    counts = resample_counts(rows, resamples, seed) if defined.any() else None
    for block in column_blocks(width, rows=max(resamples, rows)):
        place = np.flatnonzero(defined[block]) + block.start
        if not len(place):
            continue
        chosen, of_block = values[:, place], n[place]
        error = np.sqrt(central_sums(chosen, mean[place], 2)[0] / (of_block * (of_block - 1)))
        draws = studentized(*resampled_deviations(chosen, mean[place], counts))
        ((low[place], high[place]),) = studentized_ends(draws, mean[place], error, of_block, level)
    rare = np.flatnonzero(few_carry(effective_prompts(values), n) & defined)
    ends = range_of(values[:, rare], None if reach is None else np.asarray(reach)[rare])
    low[rare], high[rare] = rare_ends(values[:, rare], ends, level, resamples, seed)
    return Interval(mean, low, high, n, reason)
