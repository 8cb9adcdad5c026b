"""What bootstrap and permutation tests share: random streams, exact sums, moments, resamples, quantiles.

Sums over rows depend neither on order nor on blocks, threads or the BLAS: each column is rounded to whole multiples of
a power of two so small that the sum over all rows still fits a float64 (`on_grid`; with 24 rows the rounding is 1e-14
of the largest value, with 51,000 it is 1e-11). A result then depends on the data and the seed alone, to the last bit,
and ties in a permutation test are ties for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

BLOCK = 256  # resamples or flips drawn at a time; part of the definition: another value draws other numbers
CHUNK_BYTES = 96 * 2**20  # working memory; no result depends on it
CHUNK_COLUMNS = 256  # of a block, which so stays near the processor; no result depends on it
# one seed gives independent draws to each
BOOTSTRAP_STREAM, FLIP_STREAM, SWAP_STREAM, RARE_STREAM, GROUP_STREAM = 1, 2, 3, 4, 33
NOTHING = "no value"
ONE_PROMPT = "one prompt only"
CONSTANT = "the same value in every prompt"
LARGEST = float(np.finfo(np.float64).max)


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


def on_grid(
    values: NDArray[np.float64], centre: NDArray[np.float64] | float = 0.0, power: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return (value − centre)^power as whole numbers, 0 where a value is NaN, and each column's exponent of two.

    Any sum of all rows, repeats allowed, is below 2^53.
    """
    deviations = values - centre
    ends = [np.abs(smaller.reduce(values, axis=0, initial=np.nan) - centre) for smaller in (np.fmin, np.fmax)]
    largest = np.minimum(np.fmax(np.maximum(*ends), 0.0), LARGEST) ** power  # without a value it has no size
    bits = 53 - int(np.ceil(np.log2(max(len(values), 2))))
    exponent = np.maximum(np.frexp(largest)[1].astype(np.int64) - bits, -1000)  # below 1e-290 is nothing
    powers = deviations
    for _ in range(power - 1):  # numpy's power is slow
        powers = powers * deviations
    whole = np.rint(powers * np.ldexp(1.0, -exponent))
    return np.where(np.isnan(whole), 0.0, whole), exponent


def central_sums(
    values: NDArray[np.float64], centre: NDArray[np.float64] | float, *powers: int
) -> list[NDArray[np.float64]]:
    """Return the sums over rows of (value − centre)^power, NaN left out, for each power, shape (n_columns,)."""
    grids = (on_grid(values, centre, power) for power in powers)
    return [np.ldexp(whole.sum(axis=0), exponent) for whole, exponent in grids]


def exact_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum over rows, shape (n_columns,), NaN left out."""
    return central_sums(values, 0.0, 1)[0]


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


def studentized_means(values: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """Return the deviation of each resample's mean in its own standard errors, shape (resamples, n_columns).

    NaN where a resample's values are all equal but for rounding.
    """
    counts, present = resample_counts(len(values), resamples, seed), ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        grids = (on_grid(values, exact_sum(values) / present.sum(axis=0), power) for power in (1, 2))
        # a power of two leaves the sums exact
        deviations, squares = (whole * np.ldexp(1.0, exponent) for whole, exponent in grids)
        summed = [deviations, squares] if present.all() else [deviations, squares, present]
        first, second, *n = np.split(product(counts, np.hstack(summed)), len(summed), axis=1)
        drawn = n[0] if n else float(len(values))
        spread = second - np.square(first) / drawn  # squared deviations from the resample's own mean
        spread = np.where(spread > 1e-10 * squares.sum(axis=0), spread, np.nan)
        return first / np.sqrt(spread * drawn / (drawn - 1))


def quantiles(values: NDArray[np.float64], *probabilities: float) -> list[NDArray[np.float64]]:
    """Return the quantiles of columns at each probability, interpolated linearly; NaN are left out."""
    rows = values.T.copy()  # a column's numbers side by side: three times as fast to sort
    rows.sort(axis=1)  # NaN last
    columns, last = np.arange(len(rows)), np.maximum((~np.isnan(rows)).sum(axis=1) - 1, 0)
    result = []
    for probability in probabilities:
        place = probability * last
        below = np.floor(place).astype(np.int64)
        low, high = rows[columns, below], rows[columns, np.minimum(below + 1, last)]
        result.append(low + (high - low) * (place - below))
    return result
