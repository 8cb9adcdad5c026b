"""How a distance between frequencies is distributed when there is no difference: exact, on a grid.

A frequency is a count over a sample size, so a distance between frequencies is a whole multiple of 1 / denominator.
Its distribution is then a short vector of probabilities, sums of independent distances are convolutions, and nothing
has to be drawn. `analysis.stats.noise_floor` turns these distributions into floors and p-values.

Probabilities are float64 with an absolute error near 1e-15: a p-value below that says "none", not how little.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special, stats

LARGEST_SUPPORT = 2_000_000  # grid points; beyond this a sum is drawn instead of convolved
LARGEST_REACH = 100 * LARGEST_SUPPORT  # the same before the grid is made as coarse as it can be
LARGEST_WORK = 1_000_000_000  # multiplications in the walk over categories
LARGEST_DIRECT = 100_000_000  # multiplications; beyond this a convolution goes through the Fourier transform
MOST_PARTITIONS = 50_000
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """A distance that takes whole multiples of 1 / `denominator`.

    Attributes
    ----------
    probability : ndarray of float64, shape (n_points,)
        Of the values 0, 1 / denominator, 2 / denominator …
    denominator : int

    Examples
    --------
    Two fair coins in each of two samples: the frequencies differ by 0, 1/2 or 1.

    >>> null = frequency_difference(2, 2, 2, null="pooled")
    >>> (null.denominator, null.probability.round(12).tolist())
    (2, [0.375, 0.5, 0.125])
    >>> round(null.mean, 12), round(null.tail(0.5), 12)
    (0.375, 0.625)
    """

    probability: NDArray[np.float64]
    denominator: int

    @property
    def values(self) -> NDArray[np.float64]:
        """The values the distance can take, ascending, shape (n_points,)."""
        return np.arange(len(self.probability)) / self.denominator

    @property
    def mean(self) -> float:
        """What the distance is on average when there is no difference: its floor."""
        return float(np.arange(len(self.probability)) @ self.probability) / self.denominator

    @property
    def sd(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(max((self.values - self.mean) ** 2 @ self.probability, 0.0)))

    def tail(self, value: float) -> float:
        """Probability of a distance of at least `value`."""
        first = max(math.ceil(value * self.denominator - _TOLERANCE * self.denominator), 0)
        return float(min(np.sort(self.probability[first:]).sum(), 1.0))

    def quantile(self, level: float) -> float:
        """Smallest value whose cumulative probability reaches `level`."""
        reached = np.searchsorted(np.cumsum(self.probability), level - 1e-12)
        return float(min(reached, len(self.probability) - 1) / self.denominator)


def frequency_difference(successes: int, n_first: int, n_second: int, *, null: str) -> NullDistribution:
    r"""Distribution of :math:`|k_1/n_1 - k_2/n_2|` when both samples have the same probability.

    Parameters
    ----------
    successes : int
        :math:`k_1 + k_2`, the images that have the attribute in both samples together.
    n_first, n_second : int
        Images in each sample, at least 1.
    null : {"permutation", "pooled"}
        ``permutation`` holds the successes fixed and deals them to the two samples at random (hypergeometric;
        Fisher's conditional test, exact whatever the probability). ``pooled`` draws both samples anew with the
        probability (k_1 + k_2) / (n_1 + n_2) (two binomials; parametric).

    Raises
    ------
    ValueError
        `null` is none of these.

    Examples
    --------
    One success among two samples of two images: whichever gets it, the frequencies differ by one half.

    >>> frequency_difference(1, 2, 2, null="permutation").probability.tolist()
    [0.0, 1.0]
    """
    denominator = math.lcm(n_first, n_second)
    if null == "permutation":
        first = np.arange(max(0, successes - n_second), min(n_first, successes) + 1)
        second, weight = (
            successes - first,
            stats.hypergeom.pmf(first, n_first + n_second, successes, n_first),
        )
    elif null == "pooled":
        p = successes / (n_first + n_second)
        first, second = (axis.ravel() for axis in np.mgrid[: n_first + 1, : n_second + 1])
        weight = stats.binom.pmf(first, n_first, p) * stats.binom.pmf(second, n_second, p)
    else:
        raise ValueError(f"null: expected 'permutation' or 'pooled', got {null!r}")
    grid = np.abs(first * (denominator // n_first) - second * (denominator // n_second))
    return NullDistribution(np.bincount(grid, weights=weight), denominator)


@lru_cache(maxsize=256)
def known_distance_from_reference(n: int, reference: tuple[float, ...]) -> NullDistribution | None:
    """Return `distance_from_reference`, kept: an audit asks for a few sizes hundreds of times."""
    return distance_from_reference(n, np.array(reference))


def distance_from_reference(n: int, reference: NDArray[np.float64]) -> NullDistribution | None:
    r"""Distribution of :math:`\sum_i |c_i/n - r_i|` for n images dealt to categories with probabilities r.

    Parameters
    ----------
    n : int
        Images, at least 1.
    reference : ndarray of float64, shape (n_categories,)
        Sums to 1.

    Returns
    -------
    NullDistribution or None
        None where the reference is not made of simple fractions, or the walk would be too long.

    Examples
    --------
    Two images, two categories: both alike (distance 1) or one each (0).

    >>> distance_from_reference(2, np.array([0.5, 0.5])).probability.round(12).tolist()
    [0.5, 0.0, 0.5]
    """
    fractions = [Fraction(float(r)).limit_denominator(1000) for r in reference]
    if sum(fractions) != 1 or max(abs(float(f) - r) for f, r in zip(fractions, reference)) > 1e-12:
        return None
    scale = math.lcm(*(f.denominator for f in fractions))
    reference = reference[reference > 0]  # the others never get an image
    expected = [int(f * scale) * n for f in fractions if f]
    rest = np.cumsum(reference[::-1])[::-1]

    def chance(category: int, drawn: NDArray, x: NDArray) -> NDArray[np.float64]:
        p = 1.0 if category == len(reference) - 1 else min(reference[category] / rest[category], 1.0)
        return stats.binom.pmf(x, n - drawn, p)

    maxima = [n] * len(reference)
    return _walk(n, maxima, lambda i, x: abs(scale * x - expected[i]), chance, scale * n)


def distance_between_samples(totals: NDArray[np.int64], n_first: int) -> NullDistribution | None:
    r"""Distribution of :math:`\sum_i |a_i/n_1 - b_i/n_2|` when the pooled images are dealt to two samples at random.

    Parameters
    ----------
    totals : ndarray of int64, shape (n_categories,)
        Images of both samples together in each category.
    n_first : int
        Images in the first sample; the rest is the second. Both at least 1.

    Returns
    -------
    NullDistribution or None
        None where the walk would be too long.

    Examples
    --------
    Four images, two in each of two categories, dealt two and two: all alike in 2 of 6 ways.

    >>> null = distance_between_samples(np.array([2, 2]), 2)
    >>> dict(
    ...     zip(
    ...         null.values[null.probability > 0].tolist(),
    ...         null.probability[null.probability > 0].round(3).tolist(),
    ...     )
    ... )
    {0.0: 0.667, 2.0: 0.333}
    """
    totals = np.asarray(totals)
    totals = totals[totals > 0]
    n_second = int(totals.sum()) - n_first
    denominator = math.lcm(n_first, n_second)
    first, second = denominator // n_first, denominator // n_second
    rest = np.cumsum(totals[::-1])[::-1]

    def chance(category: int, drawn: NDArray, x: NDArray) -> NDArray[np.float64]:
        open_places = np.clip(
            n_first - drawn, 0, rest[category]
        )  # states that cannot occur hold nothing anyway
        return stats.hypergeom.pmf(x, rest[category], totals[category], open_places)

    return _walk(
        n_first,
        totals.tolist(),
        lambda i, x: abs(x * first - (int(totals[i]) - x) * second),
        chance,
        denominator,
    )


def _walk(n, maxima, distance, chance, denominator) -> NullDistribution | None:
    """Go through the categories one by one, carrying (images dealt so far, distance so far) with its probability."""
    steps = [[distance(i, x) for x in range(maxima[i] + 1)] for i in range(len(maxima))]
    unit = math.gcd(denominator, *(d for step in steps for d in step))
    size = 2 * denominator // unit + 1  # no L1 distance between distributions exceeds 2
    if (n + 1) * size > LARGEST_SUPPORT or (n + 1) * size * sum(min(m, n) + 1 for m in maxima) > LARGEST_WORK:
        return None
    state = np.zeros((n + 1, size))
    state[0, 0] = 1.0
    for category, step in enumerate(steps):
        rows = slice(0, 1) if category == 0 else slice(0, n + 1)  # of states that can be there
        counts = np.arange(min(maxima[category], n) + 1)
        weights = chance(category, np.arange(n + 1)[rows, None], counts[None, :])
        after = np.zeros_like(state)
        for x in counts:
            if (shift := step[x] // unit) >= size:
                continue
            # behind the last category all images are dealt
            some = slice(n - x, n - x + 1) if category == len(steps) - 1 else slice(0, n + 1 - x)
            before = state[rows][some, : size - shift]
            after[some.start + x :, shift:][: len(before)] += weights[some, x, None] * before
        state = after
    return NullDistribution(np.trim_zeros(state[n], "b"), denominator // unit)


def entropy(counts: NDArray[np.int64], categories: int) -> NDArray[np.float64]:
    """Entropy of each row of counts over that of the uniform distribution, between 0 and 1, shape (n_rows,).

    Parameters
    ----------
    counts : ndarray of int64, shape (n_rows, n_categories)
        At least one above 0 in each row.
    categories : int
        Of the uniform distribution, at least 2.
    """
    frequency = counts / counts.sum(axis=-1, keepdims=True)
    return special.entr(frequency).sum(axis=-1) / math.log(categories)


def entropy_distribution(n: int, categories: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Normalised entropy of n images dealt to the categories with equal chances.

    Entropy does not change when categories change places, so each partition of n stands for all its orders.

    Returns
    -------
    (values, probability), each of shape (n_partitions,), or None
        None where there are too many partitions.

    Examples
    --------
    >>> values, probability = entropy_distribution(2, 2)
    >>> [(float(v), round(float(p), 12)) for v, p in zip(values, probability)]
    [(0.0, 0.5), (1.0, 0.5)]
    """
    rows, weights = [], []
    for parts in _partitions(n, n, categories):
        if len(rows) == MOST_PARTITIONS:
            return None
        rows.append(parts + [0] * (categories - len(parts)))
        orders = math.lgamma(categories + 1) - sum(
            math.lgamma(count + 1) for count in Counter(rows[-1]).values()
        )
        ways = math.lgamma(n + 1) - sum(math.lgamma(c + 1) for c in parts)
        weights.append(orders + ways - n * math.log(categories))
    probability = np.exp(weights)
    return entropy(np.array(rows), categories), probability / probability.sum()


def _partitions(n: int, largest: int, parts: int) -> Iterator[list[int]]:
    """Every way to write n as a sum of at most `parts` whole numbers, none above `largest`, in falling order."""
    if n == 0:
        yield []
        return
    if parts == 0:
        return
    for first in range(min(n, largest), (n + parts - 1) // parts - 1, -1):
        for rest in _partitions(n - first, first, parts - 1):
            yield [first, *rest]


def mean_of_independent(parts: Mapping[NullDistribution, int]) -> NullDistribution | None:
    """Distribution of the mean of independent distances, by convolution.

    Parameters
    ----------
    parts : mapping of NullDistribution to int
        How many of the distances have each distribution.

    Returns
    -------
    NullDistribution or None
        None where the grid would be too fine.

    Examples
    --------
    >>> coin = frequency_difference(2, 2, 2, null="pooled")
    >>> both = mean_of_independent({coin: 2})
    >>> round(both.mean, 12), both.denominator, both.probability.round(4).tolist()
    (0.375, 4, [0.1406, 0.375, 0.3438, 0.125, 0.0156])
    """
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
