"""What bootstrap and permutation tests share: draws from a seed, blocks of columns, reasons for NaN.

Sums are those of `analysis.stats.exact_sums`: no result depends on blocks, threads or the BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.exact_sums import central_sums, exact_sum, on_grid, slabs

BLOCK = 256  # resamples or flips drawn at a time; part of the definition: another value draws other numbers
CHUNK_BYTES = 96 * 2**20  # working memory; no result depends on it
CHUNK_COLUMNS = 256  # of a block, which so stays near the processor; no result depends on it
BOOTSTRAP_STREAM, FLIP_STREAM, SWAP_STREAM = 1, 2, 3  # one seed gives independent draws to each
NOTHING = "no value"
ONE_PROMPT = "one prompt only"
CONSTANT = "the same value in every prompt"


def matrix(values: ArrayLike) -> NDArray[np.float64]:
    """Values as float64, shape (n_prompts, n_columns), NaN where there is none.

    Raises
    ------
    ValueError
        They have another number of axes, or one is infinite.
    """
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


def moments(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Number, mean and standard deviation (n − 1) of each column, NaN left out; NaN of too few values."""
    n, mean, sd = np.empty(values.shape[1], np.int64), *np.empty((2, values.shape[1]))
    for block in column_blocks(values.shape[1], rows=len(values)):
        chosen = values[:, block]
        n[block] = count = sum(
            (~np.isnan(chosen[rows])).sum(axis=0) for rows in slabs(chosen)
        ) + np.zeros_like(n[block])
        with np.errstate(invalid="ignore", divide="ignore"):
            mean[block] = exact_sum(chosen) / count
            sd[block] = np.sqrt(
                central_sums(chosen, mean[block], 2)[0] / np.where(count > 1, count - 1, np.nan)
            )
    return n, mean, sd


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


@lru_cache(maxsize=1)
def sign_blocks(n: int, total: int, exact: bool, seed: int) -> list[NDArray[np.uint8]]:
    """Return which of n rows keep their sign under each of `total` flips: every combination, or drawn ones.

    Blocks of at most `BLOCK` flips, a bit a row as of `numpy.packbits`; kept, and not to be written to.
    """
    rng, blocks = np.random.default_rng([seed, FLIP_STREAM]), []
    for start in range(0, total, BLOCK):
        rows = min(BLOCK, total - start)
        if exact:
            ones = np.arange(start, start + rows)[:, None] >> np.arange(n) & 1
        else:
            ones = rng.integers(0, 2, (rows, n), dtype=np.int8)
        blocks.append(np.packbits(ones.astype(bool), axis=1))
    return blocks


def flipped_sums(
    blocks: list[NDArray[np.uint8]], whole: NDArray[np.float64]
) -> Iterator[NDArray[np.float64]]:
    """Sums over rows of whole numbers under every flip, a block at a time, shape (flips, n_columns)."""
    total, buffer = whole.sum(axis=0), np.empty((BLOCK, len(whole)))
    for packed in blocks:
        kept = buffer[: len(packed)]
        kept[...] = np.unpackbits(packed, axis=1, count=len(whole))
        yield 2.0 * (kept @ whole) - total


def product(counts: NDArray, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts @ columns, a column's numbers side by side, without a float64 copy of all the counts."""
    rows = max(1, CHUNK_BYTES // (8 * max(counts.shape[1], 1)))
    result = np.empty((columns.shape[1], len(counts)))
    buffer = np.empty((min(rows, len(counts)), counts.shape[1]))
    for start in range(0, len(counts), rows):
        chosen = counts[start : start + rows]
        buffer[: len(chosen)] = chosen
        np.matmul(columns.T, buffer[: len(chosen)].T, out=result[:, start : start + rows])
    return result.T


def column_blocks(n_columns: int, rows: int) -> Iterator[slice]:
    """Cut columns into blocks so that a float64 matrix with so many rows stays within the working memory."""
    chunk = max(1, min(CHUNK_COLUMNS, CHUNK_BYTES // (8 * max(rows, 1))))
    for start in range(0, n_columns, chunk):
        yield slice(start, min(start + chunk, n_columns))


def resampled_deviations(
    values: NDArray[np.float64], mean: NDArray[np.float64], counts: NDArray[np.uint16]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | float]:
    """Sum and spread of the deviations from a mean in every resample, and how many rows with a value it holds.

    Returns
    -------
    first, spread : ndarray of float64, shape (resamples, n_columns)
        Sum of the deviations from `mean`, and of the squared ones from the resample's own mean; NaN where that is 0 but
        for rounding.
    drawn : ndarray or float
        One number where no value is missing.
    """
    present = ~np.isnan(values)
    drawn = float(len(values)) if present.all() else product(counts, present.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        whole, exponent = on_grid(values, mean)
        first = product(counts, whole * np.ldexp(1.0, exponent))  # a power of two leaves the sums exact
        squares, smaller = on_grid(values, mean, 2)
        squares *= np.ldexp(1.0, smaller)
        spread = product(counts, squares)
        between = np.square(first)
        between /= drawn
        spread -= between
        known = spread > 1e-10 * squares.sum(axis=0)
        if not known.all():
            np.copyto(spread, np.nan, where=~known)
        return first, spread, drawn


def studentized(
    first: NDArray[np.float64], spread: NDArray[np.float64], drawn: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Deviation of each resample's mean in units of its own standard error, from `resampled_deviations`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = spread * drawn
        variance /= drawn - 1
        np.sqrt(variance, out=variance)
        return np.divide(first, variance, out=variance)


def column_quantiles(
    sorted_values: NDArray[np.float64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Quantiles of sorted columns (NaN last), each at a probability of its own, interpolated linearly."""
    count = _numbers(sorted_values)
    place = np.nan_to_num(probability) * np.maximum(count - 1, 0)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    columns = np.arange(sorted_values.shape[1])
    low, high = sorted_values[below, columns], sorted_values[above, columns]
    with np.errstate(invalid="ignore"):
        value = low + (high - low) * (place - below)
    return np.where((count > 0) & ~np.isnan(probability), value, np.nan)


def _numbers(sorted_values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many numbers each sorted column holds: NaN stand last."""
    count = np.full(sorted_values.shape[1], len(sorted_values))
    if len(sorted_values):
        short = np.flatnonzero(np.isnan(sorted_values[-1]))
        count[short] = (~np.isnan(sorted_values[:, short])).sum(axis=0)
    return count


def quantiles(values: NDArray[np.float64], *probabilities: float) -> list[NDArray[np.float64]]:
    """Quantiles of columns at each probability, interpolated linearly; NaN are left out."""
    rows = values.T.copy()  # a column's numbers side by side: three times as fast to sort
    if len(probabilities) == 1 and rows.shape[1] and not np.isnan(rows).any():
        return [_selected(rows, *probabilities)]
    rows.sort(axis=1)
    return [column_quantiles(rows.T, np.full(len(rows), probability)) for probability in probabilities]


def _selected(rows: NDArray[np.float64], probability: float) -> NDArray[np.float64]:
    """A quantile of each row, none of them NaN, as `column_quantiles` of it sorted; reorders the rows."""
    place = probability * (rows.shape[1] - 1)
    below = int(np.floor(place))
    if below + 1 >= rows.shape[1]:
        return rows.max(axis=1)
    rows.partition(below + 1, axis=1)  # half as long as to sort
    low, high = rows[:, : below + 1].max(axis=1), rows[:, below + 1]
    return low + (high - low) * (place - below)


def studentized_ends(
    draws: NDArray[np.float64],
    mean: NDArray[np.float64],
    error: NDArray[np.float64],
    n: NDArray[np.int64],
    *levels: float,
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Ends of the envelope, low and high of each level: the outer of the studentized interval and Student's t."""
    tails = [tail for level in levels for tail in ((1 + level) / 2, (1 - level) / 2)]
    ends = []
    for tail, outer, quantile in zip(tails, cycle((np.fmin, np.fmax)), quantiles(draws, *tails)):
        ends.append(outer(mean - error * quantile, mean - error * special.stdtrit(n - 1, tail)))
    return list(zip(ends[::2], ends[1::2]))
