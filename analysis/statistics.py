"""How sure is a mean over prompts? Bootstrap intervals and sign-flip tests for many columns at once.

The unit is the prompt: the members of a triplet share prompt and noise, and seeds share the prompt, so each
row below is one prompt (its seeds averaged) and each column is one quantity (a site at a step). Every column
sees the same resamples and the same flips, so columns can be compared and adjusted together.

All sums are exact: each column is rounded to whole multiples of a power of two so small that the sum over all
prompts still fits a float64 (`on_grid`; with 24 prompts the rounding is 1e-14 of the largest value, with
51,000 it is 1e-11). A result then depends on the data and the seed alone, to the last bit: not on chunks,
threads or the BLAS. Ties in a permutation test are ties for the same reason.

SciPy has both procedures, for one column at a time and without a shared family; the tests hold this against
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BLOCK = 256  # resamples or flips drawn at a time; part of the definition: another value draws other numbers
CHUNK_BYTES = 32 * 2**20  # working memory; no result depends on it
_BOOTSTRAP_STREAM, _FLIP_STREAM = 1, 2  # so that one seed gives independent draws to both

NOTHING = "no value"
ONE_PROMPT = "one prompt only"
CONSTANT = "the same value in every prompt"


@dataclass(frozen=True)
class Interval:
    """Means over prompts with percentile bootstrap intervals; arrays have shape (n_columns,).

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
    """

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]
    level: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class SignFlips:
    """Sign-flip tests of the means of a family of columns; arrays have shape (n_columns,).

    Attributes
    ----------
    p_value : ndarray of float64
        Two-sided, of each column alone; NaN where undefined.
    p_adjusted : ndarray of float64
        Adjusted over the family by max-T; never below `p_value`.
    n : ndarray of int64
        Prompts that have a value.
    reason : ndarray of object (str)
        Why the p-values are NaN; empty where they are not.
    exact : bool
        Whether every flip was counted rather than drawn.
    permutations, seed : int
        Number of flips (2^n_prompts if exact) and the seed they were drawn with.
    """

    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]
    exact: bool
    permutations: int
    seed: int


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


def bootstrap_interval(
    values: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    chunk: int | None = None,
) -> Interval:
    r"""Return the mean of each column with a percentile bootstrap interval over rows.

    For resample b, :math:`\bar x^{(b)} = \sum_i c_{bi} x_i / \sum_i c_{bi}` with :math:`c_b` the number of
    times each row was drawn; the interval runs between the :math:`(1 \pm \mathrm{level})/2` quantiles over b.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        NaN where a prompt has no value in a column; it is left out of that column alone.
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
        If the shape, the level or the number of resamples is out of range, or a value is infinite.

    Source
    ------
    Efron and Tibshirani 1993, chapter 13; `scipy.stats.bootstrap(method="percentile")`.

    Examples
    --------
    A column of 0 and 1: with two prompts a resample has mean 0, 1/2 or 1 (probabilities 1/4, 1/2, 1/4).

    >>> result = bootstrap_interval([[0.0, 5.0], [1.0, 5.0]])
    >>> result.mean.tolist(), result.low.tolist(), result.high.tolist()
    ([0.5, 5.0], [0.0, nan], [1.0, nan])
    >>> result.reason.tolist()
    ['', 'the same value in every prompt']
    """
    values = _matrix(values)
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    present = ~np.isnan(values)
    n, reason = present.sum(axis=0), _undefined(values)
    whole, exponent = on_grid(values)
    with np.errstate(invalid="ignore"):
        mean = np.ldexp(whole.sum(axis=0) / n, exponent)
    ends = np.full((2, values.shape[1]), np.nan)
    defined = np.flatnonzero(reason == "")
    counts = _resample_counts(len(values), resamples, seed) if len(defined) else np.empty((0, len(values)))
    quantiles = ((1 - level) / 2, (1 + level) / 2)
    complete = n[defined] == len(values)
    for columns in _chunks(defined[complete], chunk, rows=resamples):
        ends[:, columns] = np.quantile(_product(counts, whole[:, columns]) / len(values), quantiles, axis=0)
    for columns in _chunks(defined[~complete], chunk, rows=resamples):
        sums, drawn = (_product(counts, part[:, columns]) for part in (whole, present.astype(np.float64)))
        with np.errstate(invalid="ignore"):  # a resample of missing prompts only has no mean and is left out
            ends[:, columns] = np.nanquantile(sums / drawn, quantiles, axis=0)
    low, high = np.ldexp(ends, exponent)
    return Interval(mean, low, high, n, reason, level, resamples, seed)


def sign_flip_test(
    values: ArrayLike,
    *,
    permutations: int = 10000,
    seed: int = 0,
    chunk: int | None = None,
) -> SignFlips:
    r"""Test for each column whether its mean over prompts is 0, and adjust over all columns.

    If the two members that are compared could have changed places, the sign of each prompt's difference is a
    fair coin. The p-value is the part of all flips whose absolute mean is at least the one observed, the
    observed one counted: exact over all :math:`2^n` flips where these are at most `permutations`, else
    :math:`(1 + \#)/(1 + \mathrm{permutations})` over flips that are drawn.

    Adjusted (Westfall and Young's single-step max-T): the part of all flips in which any column of the family
    has a statistic of at least this column's, :math:`|\sum_i x_i| / \sqrt{\sum_i x_i^2}`. It grows with
    Student's t alike in all columns, so columns of different scale compete on equal terms.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        Paired differences, a row a prompt; NaN where there is none. The columns are one family.
    permutations : int
    seed : int
    chunk : int, optional
        Columns worked on at a time. Sets the memory; no result depends on it.

    Returns
    -------
    SignFlips
        NaN, with the reason, with fewer than two prompts and where all values are equal. Such columns take no
        part in the family.

    Raises
    ------
    ValueError
        If the shape or the number of permutations is out of range, or a value is infinite.

    Source
    ------
    `scipy.stats.permutation_test(permutation_type="samples")` for one column; Westfall and Young 1993 for
    max-T; Phipson and Smyth 2010 for the + 1.

    Examples
    --------
    Three prompts that agree in sign: of 8 flips only all-plus and all-minus reach the mean. The second column
    is reached by 4: its first two values cancel or add up, and the third is 0.

    >>> result = sign_flip_test([[1.0, 1.0], [2.0, 1.0], [3.0, 0.0]])
    >>> result.p_value.tolist(), result.exact, result.permutations
    ([0.25, 0.5], True, 8)

    Statistics: 6 / sqrt(14) = 1.60 and 2 / sqrt(2) = 1.41, and 4 of 8 flips (first two signs alike) give the
    second column 1.41, two of them (all alike) the first 1.60 as well.

    >>> result.p_adjusted.tolist()
    [0.25, 0.5]
    """
    values = _matrix(values)
    if permutations < 1:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    reason = _undefined(values)
    defined = np.flatnonzero(reason == "")
    n = (~np.isnan(values)).sum(axis=0)
    exact = len(values) < 63 and 2 ** len(values) <= permutations
    total = 2 ** len(values) if exact else permutations
    p_value, p_adjusted = np.full((2, values.shape[1]), np.nan)
    if len(defined):
        whole = on_grid(values[:, defined])[0]
        observed, norm = np.abs(whole.sum(axis=0)), _root_sum_of_squares(whole)
        reached, largest, done = np.zeros(len(defined), np.int64), np.empty(total), 0
        for signs in _signs(len(values), total, exact, seed):
            block = np.zeros(len(signs))
            for columns in _chunks(np.arange(len(defined)), chunk, rows=len(signs)):
                sums = np.abs(signs @ whole[:, columns])
                reached[columns] += (sums >= observed[columns]).sum(axis=0)
                block = np.maximum(block, (sums / norm[columns]).max(axis=1))
            largest[done : done + len(signs)] = block
            done += len(signs)
        exceeded = total - np.searchsorted(np.sort(largest), observed / norm, side="left")
        extra = 0 if exact else 1
        p_value[defined] = (reached + extra) / (total + extra)
        p_adjusted[defined] = (exceeded + extra) / (total + extra)
    return SignFlips(p_value, p_adjusted, n, reason, exact, total, seed)


def _matrix(values: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(values, np.float64)
    if values.ndim != 2:
        raise ValueError(f"values: expected shape (n_prompts, n_columns), got {values.shape}")
    if np.isinf(values).any():
        raise ValueError("values: expected finite numbers or NaN, got an infinite one")
    return values


def _undefined(values: NDArray[np.float64]) -> NDArray[np.object_]:
    """Say for each column why nothing can be inferred from it; an empty text where something can."""
    present = ~np.isnan(values)
    n = present.sum(axis=0)
    low = np.where(present, values, np.inf).min(axis=0, initial=np.inf)
    high = np.where(present, values, -np.inf).max(axis=0, initial=-np.inf)
    reason = np.full(values.shape[1], "", dtype=object)
    reason[low == high] = CONSTANT
    reason[n == 1] = ONE_PROMPT
    reason[n == 0] = NOTHING
    return reason


def _resample_counts(n: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each of n rows is drawn in each resample, shape (resamples, n)."""
    rng = np.random.default_rng([seed, _BOOTSTRAP_STREAM])
    counts = np.empty((resamples, n), np.uint16)
    for start in range(0, resamples, BLOCK):
        rows = min(BLOCK, resamples - start)
        drawn = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        counts[start : start + rows] = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
    return counts


def _signs(n: int, total: int, exact: bool, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield rows of n signs, -1 or 1, in blocks: every combination, or drawn ones."""
    rng = np.random.default_rng([seed, _FLIP_STREAM])
    for start in range(0, total, BLOCK):
        rows = min(BLOCK, total - start)
        if exact:
            ones = np.arange(start, start + rows)[:, None] >> np.arange(n) & 1
        else:
            ones = rng.integers(0, 2, (rows, n), dtype=np.int8)
        yield 2.0 * ones - 1.0


def _product(counts: NDArray, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts @ columns in float64 without a float64 copy of all the counts."""
    rows = max(1, CHUNK_BYTES // (8 * max(counts.shape[1], 1)))
    blocks = range(0, len(counts), rows)
    return np.concatenate([counts[i : i + rows].astype(np.float64) @ columns for i in blocks])


def _chunks(columns: NDArray[np.int64], chunk: int | None, rows: int) -> Iterator[NDArray[np.int64]]:
    """Cut a list of columns so that a float64 matrix with so many rows stays within the working memory."""
    chunk = chunk or max(1, CHUNK_BYTES // (8 * rows))
    for start in range(0, len(columns), chunk):
        yield columns[start : start + chunk]


def _root_sum_of_squares(whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum row by row: numpy's own order of summation depends on the number of columns."""
    total = np.zeros(whole.shape[1])
    for row in whole:
        total += row * row
    return np.sqrt(total)
