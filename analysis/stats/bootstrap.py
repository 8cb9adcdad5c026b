"""How sure is a mean over prompts? Bootstrap intervals for many columns at once.

The unit is the prompt: the members of a triplet share prompt and noise, and seeds share the prompt, so each row below
is one prompt (its seeds averaged) and each column is one quantity (a site at a step). Every column sees the same
resamples, so columns can be compared. Sums are exact (`analysis.stats.exact_sums`), so a result depends on the data and
the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.rare_changes import (
    bounded_ends,
    effective_prompts,
    exponential_weights,
    few_carry,
    range_of,
)
from analysis.stats.resampling import (
    checked_level,
    column_blocks,
    matrix,
    moments,
    quantiles,
    resample_counts,
    resampled_deviations,
    studentized,
    undefined,
)


@dataclass(frozen=True)
class Interval:
    """Means over prompts with bootstrap intervals; arrays of shape (n_columns,), NaN where undefined, for the `reason`.

    `n` are the prompts that have a value.
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


def prompt_means(values: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of each prompt over its seeds, so that a prompt counts once however many seeds it has.

    Of values (n_prompts, n_seeds, n_columns), shape (n_prompts, n_columns); NaN where a prompt has no seed with a
    value. ValueError for another number of axes.

    >>> prompt_means([[[1.0], [3.0]], [[5.0], [np.nan]]]).tolist()
    [[2.0], [5.0]]
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 3:
        raise ValueError(f"values: expected shape (n_prompts, n_seeds, n_columns), got {values.shape}")
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(present, values, 0.0).sum(axis=1) / present.sum(axis=1)


def bootstrap_interval(
    values: ArrayLike,
    *,
    reach: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""Return the mean of each column with its interval over rows.

    For resample b, :math:`\bar x^{(b)} = \sum_i c_{bi} x_i / \sum_i c_{bi}` with :math:`c_b` the number of times each
    row was drawn. The studentized interval (Efron and Tibshirani 1993, chapter 12) takes the quantiles of :math:`(\bar
    x^{(b)} - \bar x) / \mathrm{se}^{(b)}` and turns them round at the mean; the envelope, which is ours, is at each end
    the outer one of it and of Student's t. Student's t is short where the values are skewed, the studentized interval
    where they have heavy tails; the envelope covers in both (docs/validation/statistics.md). Where so few prompts carry
    the variance that resampled standard errors degenerate, it is the bounded interval of `analysis.stats.rare_changes`
    within the smallest and the largest value, or ±`reach`, the largest difference that a prompt can have.

    A prompt without a value, NaN, is left out of that column alone; a column's interval does not depend on which others
    stand beside it. There is none with fewer than two prompts and where all values are equal. ValueError if a number is
    out of range, or a value infinite.

    At least as wide as Student's t, 2.5 ± 3.1824 · 0.6455; a column of equal values has none.

    >>> result = bootstrap_interval([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [3.0, 5.0]])
    >>> result.mean.tolist(), bool(result.low[0] <= 0.4457), bool(result.high[0] >= 4.5543)
    ([2.5, 5.0], True, True)
    >>> result.reason.tolist()
    ['', 'the same value in every prompt']
    """
    values = matrix(values)
    checked_level(level)
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    n, mean, sd = moments(values)
    low, high = np.full((2, values.shape[1]), np.nan)
    reason = undefined(values)
    for place, _, drawn in resampled_columns(values, mean, reason == "", resamples, seed):
        error = sd[place] / np.sqrt(n[place])
        ((low[place], high[place]),) = envelopes(studentized(*drawn), mean[place], error, n[place], level)
    few = few_carry(effective_prompts(values), n) & (reason == "")
    ends = range_of(values[:, few], None if reach is None else np.asarray(reach)[few])
    low[few], high[few] = rare_ends(values[:, few], ends, level, resamples, seed)
    return Interval(mean, low, high, n, reason)


def resampled_columns(
    values: NDArray[np.float64],
    mean: NDArray[np.float64],
    defined: NDArray[np.bool_],
    resamples: int,
    seed: int,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64], tuple]]:
    """Yield the places of columns that are defined, some at a time, their values and their `resampled_deviations`."""
    counts = resample_counts(len(values), resamples, seed) if defined.any() else None
    for block in column_blocks(values.shape[1], rows=max(resamples, len(values))):
        place = np.flatnonzero(defined[block]) + block.start
        if len(place):
            yield place, values[:, place], resampled_deviations(values[:, place], mean[place], counts)


def envelopes(
    draws: NDArray[np.float64],
    mean: NDArray[np.float64],
    error: NDArray[np.float64],
    n: NDArray[np.int64],
    *levels: float,
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return the ends of each level: the outer of the studentized interval and Student's t."""
    tails = [tail for level in levels for tail in ((1 + level) / 2, (1 - level) / 2)]
    edges = [
        (mean - error * quantile, mean - error * special.stdtrit(n - 1, tail))
        for tail, quantile in zip(tails, quantiles(draws, *tails))
    ]
    return [(np.fmin(*low), np.fmax(*high)) for low, high in zip(edges[::2], edges[1::2])]


def rare_ends(
    values: NDArray[np.float64], ends: tuple, level: float, resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounded interval of columns between the ends of their range (`range_of`)."""
    if not values.shape[1]:
        return np.empty(0), np.empty(0)
    return bounded_ends(values, exponential_weights(len(values), resamples, seed), ends, level)
