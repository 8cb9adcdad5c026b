"""Sums over rows that do not depend on order, threads or the BLAS.

Each column is rounded to whole multiples of a power of two so small that the sum over all rows still fits a float64
(`on_grid`; with 24 rows the rounding is 1e-14 of the largest value, with 51,000 it is 1e-11). A result then depends on
the data and the seed alone, to the last bit, and ties in a permutation test are ties for the same reason.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float64).max)


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
