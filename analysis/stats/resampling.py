"""What bootstrap and permutation tests share: random streams, moments, resamples, quantiles, reasons for NaN.

Sums are those of `analysis.stats.exact_sums`: no result depends on blocks, threads or the BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.exact_sums import central_sums, exact_sum, on_grid

BLOCK = 256  # resamples or flips drawn at a time; part of the definition: another value draws other numbers
CHUNK_BYTES = 96 * 2**20  # working memory; no result depends on it
CHUNK_COLUMNS = 256  # of a block, which so stays near the processor; no result depends on it
# one seed gives independent draws to each
BOOTSTRAP_STREAM, FLIP_STREAM, SWAP_STREAM, RARE_STREAM, GROUP_STREAM = 1, 2, 3, 4, 33
NOTHING = "no value"
ONE_PROMPT = "one prompt only"
CONSTANT = "the same value in every prompt"


def matrix(values: ArrayLike) -> NDArray[np.float64]:
    """Return values as float64, shape (n_prompts, n_columns); ValueError for another shape or an infinite value."""
    values = np.asarray(values, np.float64)
    if values.ndim != 2:
        raise ValueError(f"values: expected shape (n_prompts, n_columns), got {values.shape}")
    if np.isinf(values).any():
        raise ValueError("values: expected finite numbers or NaN, got an infinite one")
    return values


def checked_level(level: float) -> float:
    """Return a level of confidence, or raise ValueError where it is no number between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    return level


def undefined(values: NDArray[np.float64]) -> NDArray[np.object_]:
    """Return for each column why nothing can be inferred from it; an empty text where something can."""
    n = (~np.isnan(values)).sum(axis=0)
    low, high = (smaller.reduce(values, axis=0, initial=np.nan) for smaller in (np.fmin, np.fmax))
    reason = np.full(values.shape[1], "", dtype=object)
    reason[low == high] = CONSTANT
    reason[n == 1] = ONE_PROMPT
    reason[n == 0] = NOTHING
    return reason


def moments(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return number, mean and standard deviation (n − 1) of each column, NaN left out; NaN of too few values."""
    n = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = exact_sum(values) / n
        return n, mean, np.sqrt(central_sums(values, mean, 2)[0] / np.where(n > 1, n - 1, np.nan))


@lru_cache(maxsize=1)
def resample_counts(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """Return how often each of n rows is drawn in each resample, shape (resamples, n); kept, not to be written to."""
    rng = np.random.default_rng([seed, BOOTSTRAP_STREAM])
    counts = np.empty((resamples, n), np.uint16)
    for start in range(0, resamples, BLOCK):
        rows = min(BLOCK, resamples - start)
        drawn = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        counts[start : start + rows] = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
    counts.flags.writeable = False
    return counts


def product(counts: NDArray, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts @ columns, without a float64 copy of all the counts."""
    rows = max(1, CHUNK_BYTES // (8 * max(counts.shape[1], 1)))
    result = np.empty((len(counts), columns.shape[1]))
    for start in range(0, len(counts), rows):
        result[start : start + rows] = counts[start : start + rows].astype(np.float64) @ columns
    return result


def column_blocks(n_columns: int, rows: int) -> Iterator[slice]:
    """Yield blocks of columns such that a float64 matrix with so many rows stays within the working memory."""
    chunk = max(1, min(CHUNK_COLUMNS, CHUNK_BYTES // (8 * max(rows, 1))))
    for start in range(0, n_columns, chunk):
        yield slice(start, min(start + chunk, n_columns))


def resampled_deviations(
    values: NDArray[np.float64], mean: NDArray[np.float64], counts: NDArray[np.uint16]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | float]:
    """Return sum and spread of the deviations from a mean in every resample, and how many values it holds.

    The spread, shape (resamples, n_columns), is the sum of the squared deviations from the resample's own mean; NaN
    where that is 0 but for rounding. The number of values is one where none is missing.
    """
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        # a power of two leaves the sums exact
        deviations, squares = (
            whole * np.ldexp(1.0, exponent) for whole, exponent in (on_grid(values, mean, p) for p in (1, 2))
        )
        summed = [deviations, squares] if present.all() else [deviations, squares, present]
        first, second, *n = np.split(product(counts, np.hstack(summed)), len(summed), axis=1)
        drawn = n[0] if n else float(len(values))
        spread = second - np.square(first) / drawn
        return first, np.where(spread > 1e-10 * squares.sum(axis=0), spread, np.nan), drawn


def studentized(
    first: NDArray[np.float64], spread: NDArray[np.float64], drawn: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return the deviation of each resample's mean in its own standard errors, from `resampled_deviations`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return first / np.sqrt(spread * drawn / (drawn - 1))


def column_quantiles(
    sorted_values: NDArray[np.float64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return quantiles of sorted columns (NaN last), each at a probability of its own, interpolated linearly."""
    count = (~np.isnan(sorted_values)).sum(axis=0)
    place = np.nan_to_num(probability) * np.maximum(count - 1, 0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    columns = np.arange(sorted_values.shape[1])
    low, high = sorted_values[below, columns], sorted_values[above, columns]
    with np.errstate(invalid="ignore"):
        value = low + (high - low) * (place - below)
    return np.where((count > 0) & ~np.isnan(probability), value, np.nan)


def quantiles(values: NDArray[np.float64], *probabilities: float) -> list[NDArray[np.float64]]:
    """Return the quantiles of columns at each probability, interpolated linearly; NaN are left out."""
    rows = values.T.copy()  # a column's numbers side by side: three times as fast to sort
    rows.sort(axis=1)
    return [column_quantiles(rows.T, np.full(len(rows), probability)) for probability in probabilities]
