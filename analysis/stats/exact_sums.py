"""Sums over rows that do not depend on order, blocks, threads or the BLAS.

Each column is rounded to whole multiples of a power of two so small that the sum over all rows still fits a float64
(`on_grid`; with 24 rows the rounding is 1e-14 of the largest value, with 51,000 it is 1e-11). A result then depends on
the data and the seed alone, to the last bit, and ties in a permutation test are ties for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float64).max)
SLAB = 2**17  # numbers worked on between two visits to main memory; no result depends on it


def on_grid(
    values: NDArray[np.float64], centre: NDArray[np.float64] | float = 0.0, power: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Round (value − centre)^power to whole numbers times a power of two of each column: sums over rows are exact.

    Returns the whole numbers, 0 where a value is NaN, and the exponents, shape (n_columns,); any sum of all rows,
    repeats allowed, is below 2^53.
    """
    exponent, whole = _exponents(values, centre, power), np.empty(values.shape)
    for rows in slabs(values):
        _whole_part(values[rows] - centre, power, exponent, out=whole[rows])
    return whole, exponent


def central_sums(
    values: NDArray[np.float64], centre: NDArray[np.float64] | float, *powers: int
) -> list[NDArray[np.float64]]:
    """Sums over rows of (value − centre)^power, NaN left out, for each power, shape (n_columns,); see `on_grid`."""
    exponents = [_exponents(values, centre, power) for power in powers]
    totals = np.zeros((len(powers), values.shape[1]))
    for rows in slabs(values):
        deviations = values[rows] - centre
        for total, power, exponent in zip(totals, powers, exponents):
            total += _whole_part(deviations, power, exponent, out=np.empty(deviations.shape)).sum(axis=0)
    return [np.ldexp(total, exponent) for total, exponent in zip(totals, exponents)]


def _whole_part(
    deviations: NDArray[np.float64], power: int, exponent: NDArray[np.int64], out: NDArray[np.float64]
) -> NDArray[np.float64]:
    powers = deviations
    for _ in range(power - 1):  # numpy's power is slow
        powers = powers * deviations
    np.rint(np.multiply(powers, np.ldexp(1.0, -exponent), out=out), out=out)
    np.copyto(out, 0.0, where=np.isnan(out))
    return out


def _exponents(
    values: NDArray[np.float64], centre: NDArray[np.float64] | float, power: int
) -> NDArray[np.int64]:
    ends = [np.abs(smaller.reduce(values, axis=0, initial=np.nan) - centre) for smaller in (np.fmin, np.fmax)]
    largest = np.minimum(np.fmax(np.maximum(*ends), 0.0), LARGEST) ** power  # without a value it has no size
    bits = 53 - int(np.ceil(np.log2(max(len(values), 2))))
    return np.maximum(np.frexp(largest)[1].astype(np.int64) - bits, -1000)  # below 1e-290 is nothing


def exact_sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over rows, shape (n_columns,), NaN left out, in whatever order it is done; see `on_grid` for the rounding."""
    return central_sums(values, 0.0, 1)[0]


def slabs(values: NDArray) -> Iterator[slice]:
    """Cut rows so that a slab stays in the processor's cache."""
    step = max(1, SLAB // max(values.shape[1], 1))
    for start in range(0, len(values), step):
        yield slice(start, start + step)
