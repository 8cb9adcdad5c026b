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


def gap_cautions(values: NDArray[np.float64], n_effective: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return the caution of the mean of each column, values (n_prompts, n_columns); an empty text where there is none.

    `n_effective` is of `analysis.stats.rare_changes.effective_prompts`.

    >>> values = np.zeros((24, 1))
    >>> values[0] = 1.0
    >>> gap_cautions(values, np.array([1.1])).tolist()
    ['few prompts carry the difference']
    """
    n = (~np.isnan(values)).sum(axis=0)
    skewed = np.abs(skewness(values)) > SIGMAS * skewness_error(n)
    few = few_carry(n_effective, n)
    return np.select([few, skewed], [FEW_CARRY, SKEWED], "").astype(object)


def word_cautions(
    n_references: NDArray[np.int64],
    unequal: NDArray[np.bool_],
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.object_]:
    """Return the cautions of the test against words of each column, joined by "; ".

    By the words that stood as reference, whether the sides are unequal (`unequal_sides`), and the words of each side.

    >>> word_cautions(np.array([1, 3]), np.array([False, True]), (np.array([3, 3]), np.array([3, 3]))).tolist()
    ['one reference word: the claim is about this word alone', 'words of a side spread unequally: the odder side is \
farther from any word']
    """
    told = {ONE_REFERENCE: n_references == 1, UNEQUAL: unequal, UNEQUAL_SIZES: sizes[0] != sizes[1]}
    rows = zip(*(np.broadcast_to(where, len(n_references)) for where in told.values()))
    return np.array(["; ".join(text for text, said in zip(told, row) if said) for row in rows], object)


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
