"""Cautions for results like those simulated cases in which a number misses its error rate
(docs/validation/statistics.md).

A caution takes nothing away: it says which number of a row to read with what reserve.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.exact_sums import central_sums, exact_sum
from analysis.stats.rare_changes import FEW_CARRY, few_carry

ONE_REFERENCE = "one reference word: the claim is about this word alone"
UNEQUAL = "words of a side spread unequally: the odder side is farther from any word"
UNEQUAL_SIZES = "sides of unequal size: a smaller side that spreads more is found too often"
SKEWED = "skewed differences: read the interval, not p_value"
RATIO = 2.0  # of the mean distances within the two sides
SIGNIFICANT = 0.05  # each tail, of the ratio of two variances
SIGMAS = 2.0  # of the skewness of a normal sample: one in twenty of these is warned of


def looks_like(
    values: NDArray[np.float64],
    n_effective: NDArray[np.float64],
    *,
    n_references: NDArray[np.int64],
    unequal: NDArray[np.bool_],
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]],
    tested: NDArray[np.bool_],
) -> NDArray[np.object_]:
    """Return the cautions of each column, joined by "; "; an empty text where there is none.

    Parameters
    ----------
    values : ndarray of float64, shape (n_prompts, n_columns)
        Differences of the prompts; NaN where there is none.
    n_effective : ndarray of float64, shape (n_columns,)
        See `analysis.stats.rare_changes.effective_prompts`.
    n_references : ndarray of int64, shape (n_columns,)
        Words that stood as reference.
    unequal : ndarray of bool, shape (n_columns,)
        See `unequal_sides`.
    sizes : (ndarray, ndarray) of int64, shape (n_columns,)
        Words of each side.
    tested : ndarray of bool, shape (n_columns,)
        Whether there is a test against words, without which nothing is said of them.

    Examples
    --------
    >>> values = np.zeros((24, 1))
    >>> values[0] = 1.0
    >>> looks_like(
    ...     values,
    ...     np.array([1.1]),
    ...     n_references=np.array([3]),
    ...     unequal=np.array([False]),
    ...     sizes=(np.array([3]), np.array([3])),
    ...     tested=np.array([True]),
    ... ).tolist()
    ['few prompts carry the difference']
    """
    n = (~np.isnan(values)).sum(axis=0)
    few = few_carry(n_effective, n)
    skewed = ~few & (np.abs(skewness(values)) > SIGMAS * skewness_error(n))
    cautions = (
        (few, FEW_CARRY),
        (skewed, SKEWED),
        (tested & (n_references == 1), ONE_REFERENCE),
        (tested & unequal, UNEQUAL),
        (tested & (sizes[0] != sizes[1]), UNEQUAL_SIZES),
    )
    rows = zip(*(np.broadcast_to(where, len(n)) for where, _ in cautions))
    texts = [text for _, text in cautions]
    return np.array(
        ["; ".join(text for said, text in zip(row, texts) if said) for row in rows] + [None], object
    )[:-1]


def unequal_sides(
    spread: NDArray[np.float64], sizes: tuple[int, int], apart: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Say for each column whether the words of one side lie farther apart than those of the other.

    The ratio of the mean distances `apart` is `RATIO` or more, or that of the variances `spread` of the words' nearness
    to the reference is in either 5 % tail of F; both of shape (2, n_columns), NaN where there is none.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        far = apart.max(axis=0) >= RATIO * apart.min(axis=0)
        if min(sizes) < 2:
            return far & (apart.max(axis=0) > 0)
        tail = special.fdtrc(sizes[0] - 1, sizes[1] - 1, spread[0] / spread[1])
    return (far & (apart.max(axis=0) > 0)) | (tail < SIGNIFICANT) | (tail > 1 - SIGNIFICANT)


def skewness(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the adjusted skewness of each column (`scipy.stats.skew(bias=False)`); NaN of fewer than three."""
    n = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = values - exact_sum(values) / n
        scale = np.fmax.reduce(np.abs(centred), axis=0, initial=0.0)
        squares, cubes = central_sums(centred / np.where(scale > 0, scale, np.nan), 0.0, 2, 3)
        adjusted = np.sqrt(n * (n - 1.0)) / np.where(n > 2, n - 2.0, np.nan)
        return np.where(squares > 0, adjusted * np.sqrt(n) * cubes / squares**1.5, np.nan)


def skewness_error(n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the standard deviation of the adjusted skewness of n normal values."""
    n = np.asarray(n, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 2, np.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3))), np.nan)
