"""Distributions of distances between frequencies when there is no difference: exact, on a grid.

A frequency is a count over a sample size, so a distance between frequencies is a whole multiple of 1 / denominator.
Its distribution is then a short vector of probabilities, sums of independent distances are convolutions, and nothing
has to be drawn. `analysis.stats.noise_floor` turns these distributions into floors and p-values.

Probabilities are float64 with an absolute error near 1e-15: a p-value below that says "none", not how little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import signal, stats

LARGEST_SUPPORT = 2_000_000  # grid points; beyond this a sum is drawn instead of convolved
LARGEST_REACH = 100 * LARGEST_SUPPORT  # the same before the grid is made as coarse as it can be
LARGEST_WORK = 1_000_000_000  # multiplications in the walk over categories
LARGEST_DIRECT = 100_000_000  # multiplications; beyond this a convolution goes through the Fourier transform
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """A distance that takes whole multiples of 1 / `denominator`.

    Attributes
    ----------
    probability : ndarray of float64, shape (n_points,)
        Of the values 0, 1 / denominator, 2 / denominator …
    denominator : int
    """

    probability: NDArray[np.float64]
    denominator: int

    @property
    def values(self) -> NDArray[np.float64]:
        """The values the distance can take, ascending, shape (n_points,)."""
        return np.arange(len(self.probability)) / self.denominator

    @property
    def mean(self) -> float:
        """Mean of the distance when there is no difference: its floor."""
        return float(np.arange(len(self.probability)) @ self.probability) / self.denominator

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(max((self.values - self.mean) ** 2 @ self.probability, 0.0)))

    def tail(self, value: float) -> float:
        """Probability of a distance of at least `value`."""
        first = max(math.ceil(value * self.denominator - _TOLERANCE * self.denominator), 0)
        return float(min(np.sort(self.probability[first:]).sum(), 1.0))


@lru_cache(maxsize=256)
def distance_from_uniform(n: int, categories: int) -> NullDistribution | None:
    r"""Distribution of :math:`\sum_i |c_i/n - 1/N|` for n images dealt to N categories with equal chances.

    The categories are gone through one by one, carrying (images dealt so far, distance so far) with its probability;
    None where there are too many states. Results are kept: an audit needs a few sizes hundreds of times.
    """
    share = np.full(categories, 1 / categories)
    rest = np.cumsum(share[::-1])[::-1]
    denominator = categories * n
    counts = np.arange(n + 1)
    distances = [abs(categories * int(count) - n) for count in counts]
    unit = math.gcd(denominator, *distances)
    size = 2 * denominator // unit + 1  # no L1 distance between distributions exceeds 2
    if (n + 1) * size > LARGEST_SUPPORT or (n + 1) * size * categories * (n + 1) > LARGEST_WORK:
        return None
    state = np.zeros((n + 1, size))
    state[0, 0] = 1.0
    for category in range(categories):
        first, last = category == 0, category == categories - 1
        rows = slice(0, 1) if first else slice(0, n + 1)  # of states that can be there
        p = 1.0 if last else min(share[category] / rest[category], 1.0)
        weights = stats.binom.pmf(counts[None, :], n - counts[rows, None], p)
        after = np.zeros_like(state)
        for count in counts:
            if (shift := distances[count] // unit) >= size:
                continue
            # behind the last category all images are dealt
            some = slice(n - count, n - count + 1) if last else slice(0, n + 1 - count)
            before = state[rows][some, : size - shift]
            after[some.start + count :, shift:][: len(before)] += weights[some, count, None] * before
        state = after
    return NullDistribution(np.trim_zeros(state[n], "b"), denominator // unit)


def mean_of_independent(parts: Mapping[NullDistribution, int]) -> NullDistribution | None:
    """Distribution of the mean of so many independent distances of each kind; None where the grid would be too fine."""
    denominator = math.lcm(*(null.denominator for null in parts))
    reach = sum(
        (len(null.probability) - 1) * (denominator // null.denominator) * m for null, m in parts.items()
    )
    if reach > LARGEST_REACH:
        return None
    points = [np.flatnonzero(null.probability) * (denominator // null.denominator) for null in parts]
    unit = math.gcd(denominator, *(int(p) for support in points for p in support))
    if reach // unit >= LARGEST_SUPPORT:
        return None
    total = np.ones(1)
    for (null, multiplicity), support in zip(parts.items(), points):
        grid = np.zeros(support[-1] // unit + 1)
        grid[support // unit] = null.probability[null.probability != 0]
        total = _convolve(total, _power(grid, multiplicity))
    return NullDistribution(total, denominator // unit * sum(parts.values()))


def _power(grid: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """Convolve a grid with itself, by repeated squaring."""
    total = np.ones(1)
    while times:
        if times & 1:
            total = _convolve(total, grid)
        times >>= 1
        if times:
            grid = _convolve(grid, grid)
    return total


def _convolve(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(a) * len(b) <= LARGEST_DIRECT:
        return np.convolve(a, b)
    return np.clip(signal.fftconvolve(a, b), 0.0, None)
