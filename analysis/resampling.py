"""What bootstrap and permutation tests share: exact sums, draws from a seed, blocks of columns, reasons for NaN.

Sums are exact: each column is rounded to whole multiples of a power of two so small that the sum over all rows still
fits a float64 (`on_grid`; with 24 rows the rounding is 1e-14 of the largest value, with 51,000 it is 1e-11). A
result then depends on the data and the seed alone, to the last bit: not on blocks, threads or the BLAS. Ties in a
permutation test are ties for the same reason. Where a sum cannot be exact (cubes), rows are added one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

BLOCK = 256  # resamples or flips drawn at a time; part of the definition: another value draws other numbers
CHUNK_BYTES = 96 * 2**20  # working memory; no result depends on it
BOOTSTRAP_STREAM, FLIP_STREAM, SWAP_STREAM = 1, 2, 3  # one seed gives independent draws to each

NOTHING = "no value"
ONE_PROMPT = "one prompt only"
CONSTANT = "the same value in every prompt"


def on_grid(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Round columns to whole numbers times a power of two, so that sums over rows are exact.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_columns)
        NaN becomes 0.

    Returns
    -------
    whole : ndarray of float64, shape (n_rows, n_columns)
        Whole numbers; any sum of n_rows of them, repeats allowed, is below 2^53.
    exponent : ndarray of int64, shape (n_columns,)
        ``values`` is ``ldexp(whole, exponent)`` up to rounding.

    Examples
    --------
    Two rows leave 52 bits a number: 0.75 is 3 * 2^50 units of 2^-52.

    >>> whole, exponent = on_grid(np.array([[0.75], [-0.5]]))
    >>> int(exponent[0]), (whole[:, 0] / 2**50).tolist()
    (-52, [3.0, -2.0])
    """
    present = np.where(np.isnan(values), 0.0, values)
    bits = 53 - int(np.ceil(np.log2(max(len(values), 2))))
    largest = np.abs(present).max(axis=0, initial=0.0)
    exponent = np.frexp(largest)[1].astype(np.int64) - bits
    return np.rint(np.ldexp(present, -exponent)), exponent


def matrix(values: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(values, np.float64)
    if values.ndim != 2:
        raise ValueError(f"values: expected shape (n_prompts, n_columns), got {values.shape}")
    if np.isinf(values).any():
        raise ValueError("values: expected finite numbers or NaN, got an infinite one")
    return values


def undefined(values: NDArray[np.float64]) -> NDArray[np.object_]:
    """Say for each column why nothing can be inferred from it; an empty text where something can."""
    n = (~np.isnan(values)).sum(axis=0)
    low, high = (smaller.reduce(values, axis=0, initial=np.nan) for smaller in (np.fmin, np.fmax))
    reason = np.full(values.shape[1], "", dtype=object)
    reason[low == high] = CONSTANT
    reason[n == 1] = ONE_PROMPT
    reason[n == 0] = NOTHING
    return reason


def resample_counts(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each of n rows is drawn in each resample, shape (resamples, n)."""
    rng = np.random.default_rng([seed, BOOTSTRAP_STREAM])
    counts = np.empty((resamples, n), np.uint16)
    for start in range(0, resamples, BLOCK):
        rows = min(BLOCK, resamples - start)
        drawn = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        counts[start : start + rows] = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
    return counts


def sign_blocks(n: int, total: int, exact: bool, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield rows of n signs, -1 or 1, in blocks: every combination, or drawn ones."""
    rng = np.random.default_rng([seed, FLIP_STREAM])
    for start in range(0, total, BLOCK):
        rows = min(BLOCK, total - start)
        if exact:
            ones = np.arange(start, start + rows)[:, None] >> np.arange(n) & 1
        else:
            ones = rng.integers(0, 2, (rows, n), dtype=np.int8)
        yield 2.0 * ones - 1.0


def product(counts: NDArray, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts @ columns in float64 without a float64 copy of all the counts."""
    rows = max(1, CHUNK_BYTES // (8 * max(counts.shape[1], 1)))
    blocks = range(0, len(counts), rows)
    return np.concatenate([counts[i : i + rows].astype(np.float64) @ columns for i in blocks])


def column_blocks(n_columns: int, chunk: int | None, rows: int) -> Iterator[slice]:
    """Cut columns into blocks so that a float64 matrix with so many rows stays within the working memory."""
    chunk = chunk or max(1, CHUNK_BYTES // (8 * max(rows, 1)))
    for start in range(0, n_columns, chunk):
        yield slice(start, min(start + chunk, n_columns))


def row_sum(rows: Iterable[NDArray[np.float64]], n_columns: int) -> NDArray[np.float64]:
    """Add rows one after the other: numpy's own order of summation depends on the number of columns."""
    total = np.zeros(n_columns)
    for row in rows:
        total += row
    return total


def rows_drawn(values: NDArray[np.float64], counts: NDArray[np.uint16]) -> NDArray[np.float64] | float:
    """How many rows with a value each resample holds: (resamples, n_columns), or one number if none is missing."""
    present = ~np.isnan(values)
    return float(len(values)) if present.all() else product(counts, present.astype(np.float64))


def resampled_deviations(
    values: NDArray[np.float64], mean: NDArray[np.float64], counts: NDArray[np.uint16]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | float]:
    """Sum and spread of the deviations from a mean in every resample.

    Returns
    -------
    first : ndarray of float64, shape (resamples, n_columns)
        Sum of the deviations from `mean`.
    spread : ndarray of float64, shape (resamples, n_columns)
        Sum of the squared deviations from the resample's own mean; NaN where it is 0 but for rounding.
    drawn : ndarray or float
        See `rows_drawn`.
    """
    whole, exponent = on_grid(values - mean)
    squares, smaller = on_grid(np.ldexp(whole, exponent) ** 2)
    drawn = rows_drawn(values, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = np.ldexp(product(counts, whole), exponent)
        spread = np.ldexp(product(counts, squares), smaller) - first**2 / drawn
        rounding = 1e-10 * np.ldexp(squares.sum(axis=0), smaller)
        return first, np.where(spread > rounding, spread, np.nan), drawn


def studentized_draws(values: NDArray[np.float64], counts: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Deviation of each resample's mean in units of its own standard error; NaN where that is 0."""
    whole, exponent = on_grid(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.ldexp(whole.sum(axis=0) / (~np.isnan(values)).sum(axis=0), exponent)
        first, spread, drawn = resampled_deviations(values, mean, counts)
        return first / np.sqrt(spread * drawn / (drawn - 1))


def column_quantiles(
    sorted_values: NDArray[np.float64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Quantiles of sorted columns, each at a probability of its own, interpolated linearly.

    Parameters
    ----------
    sorted_values : ndarray of float64, shape (n_draws, n_columns)
        Ascending; NaN stand last and are left out.
    probability : ndarray of float64, shape (n_columns,)
        NaN gives NaN.

    Examples
    --------
    >>> column_quantiles(np.array([[0.0, 1.0], [2.0, np.nan]]), np.array([0.25, 0.25])).tolist()
    [0.5, 1.0]
    """
    count = (~np.isnan(sorted_values)).sum(axis=0)
    place = np.nan_to_num(probability) * np.maximum(count - 1, 0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    columns = np.arange(sorted_values.shape[1])
    low, high = sorted_values[below, columns], sorted_values[above, columns]
    with np.errstate(invalid="ignore"):
        value = low + (high - low) * (place - below)
    return np.where((count > 0) & ~np.isnan(probability), value, np.nan)
