r"""The mean absolute deviation (MAD) of shares from uniform beside its noise floor, of images that may share noises.

A distance between shares cannot be negative, so chance alone gives a positive score: with nine images a gender MAD of
no bias is 0.137 on average.

Images of *person*, *woman* and *man* of one noise look alike, so they are no independent draws. The images of one noise
are a **cluster**. What is held to be without a difference is that every relabelling of the categories is as likely: for
each cluster one permutation of the categories is drawn, independent of those of other clusters, and all its images are
relabelled by it. It is a randomization test under this symmetry, whatever the dependence within a cluster. Where every
cluster has one image it is the even multinomial, which is counted where that is feasible: a share is a count over a
number of images, so the distance is a whole multiple of 1 / denominator, and the sum over prompts a convolution.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal, stats

from analysis.stats.permutation import NO_IMAGES, NoiseFloor

DRAWS = 9999
ONE_CATEGORY = "one category only"
LARGEST_SUPPORT = 2_000_000  # grid points; beyond this a sum is drawn instead of convolved
LARGEST_WORK = 1_000_000_000  # multiplications in the walk over categories
_TOLERANCE = 1e-9

# of a prompt: how often each cluster has its categories, in falling order
Clusters = tuple[tuple[int, ...], ...]
Chances = tuple[
    NDArray[np.float64], int
]  # of the values 0, 1 / denominator, 2 / denominator …; the denominator


def mad_floor(counts: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NoiseFloor:
    r"""Return the MAD, :math:`\frac1N \sum_i |p_i - \frac1N|`, mean over prompts, and its floor.

    Cho et al. 2023, section 4.2.4; range 0 (uniform) to 2 (N − 1) / N² (one category only). Of counts of independent
    images, (n_categories,) or (n_prompts, n_categories), or of images in clusters, (n_prompts, n_clusters,
    n_categories): a prompt or cluster without images is left out. The floor is counted; the p-value is drawn where
    clusters have several images, or the exact distribution would need too fine a grid. With one cluster in each prompt
    every relabelling gives the score itself: the p-value is 1, the excess 0. ValueError if a count is negative or no
    whole number.

    Nine images in two categories cannot be even: the floor is 35/256.

    >>> result = mad_floor([5, 4])
    >>> round(result.value, 4), round(result.floor, 4), round(result.p_value, 4)
    (0.0556, 0.1367, 1.0)

    Two noises of three images, alike within each: relabelled they are alike, too, with one chance in two. Taken for six
    independent images, all alike would have one in 32.

    >>> result = mad_floor([[[3, 0], [3, 0]]])
    >>> result.value, result.floor, round(result.p_value, 1), round(mad_floor([6, 0]).p_value, 5)
    (0.5, 0.25, 0.5, 0.03125)
    """
    table = whole_counts(counts)
    if draws < 1:
        raise ValueError(f"draws: expected at least 1, got {draws}")
    if table.ndim == 3:
        shares = -np.sort(-table, axis=2)
        prompts = [
            tuple(sorted(tuple(int(n) for n in cluster if n) for cluster in prompt if cluster.any()))
            for prompt in shares
        ]
        table = table.sum(axis=1)
    else:
        table = np.atleast_2d(table)
        prompts = [((1,),) * int(images) for images in table.sum(axis=1)]
    kinds = dict(sorted(Counter(filter(None, prompts)).items()))
    images, size = table.sum(axis=1), table.shape[1]
    if size < 2 or not kinds:
        return NoiseFloor(reason=ONE_CATEGORY if size < 2 else NO_IMAGES)
    kept = table[images > 0]
    value = float(np.abs(kept / kept.sum(axis=1, keepdims=True) - 1 / size).mean())
    floor = sum(_mean(clusters, size) * repeats for clusters, repeats in kinds.items()) / len(kept)
    single = all(set(clusters) == {(1,)} for clusters in kinds)
    chances = _chances_of_mean({len(one): k for one, k in kinds.items()}, size) if single else None
    if chances is None:
        null = _drawn(kinds, size, draws, seed)
        sd, p_value = float(null.std()), (1 + int((null >= value - _TOLERANCE).sum())) / (1 + draws)
    else:
        chance, denominator = chances
        distance = np.arange(len(chance)) / denominator / size
        sd = float(np.sqrt(max((distance - floor) ** 2 @ chance, 0.0)))
        p_value = float(min(np.sort(chance[distance >= value - _TOLERANCE]).sum(), 1.0))
    return NoiseFloor(value, floor, sd, value - floor, p_value, "")


def design_effect(counts: ArrayLike) -> float:
    r"""Return the variance of shares of clustered images over that of as many independent ones, 1 at least.

    Of counts (n_prompts, n_clusters, n_categories):
    :math:`\sum_p \sum_c \hat v_{pc} \big/ \sum_p \sum_c \hat s_{pc} (1 - \hat s_{pc}) / (n_p - 1)`, with the share
    :math:`\hat s_{pc}` of category c among the :math:`n_p` images of prompt p and the variance of that ratio over its
    :math:`K_p` clusters, :math:`\hat v_{pc} = \frac{K_p}{K_p - 1} \sum_k (y_{pkc} - \hat s_{pc} m_{pk})^2 / n_p^2`: one
    number for all prompts and categories, since of a few clusters alone it can hardly be told. Where no prompt has two
    clusters, or shares do not vary, the mean size of the cluster of an image: what it is if the images of a cluster are
    alike. NaN without images. It divides a sample size, or multiplies a covariance (Rao and Scott 1981).

    >>> round(design_effect([[[3, 0], [0, 3], [3, 0], [0, 3]]]), 2)
    3.67
    >>> design_effect([[[1, 0], [0, 1], [1, 0], [0, 1]]])
    1.0
    """
    table = whole_counts(counts)
    if table.ndim != 3:
        raise ValueError(f"counts: expected shape (n_prompts, n_clusters, n_categories), got {table.shape}")
    sizes = table.sum(axis=2)
    if not sizes.any():
        return math.nan
    clustered, independent = 0.0, 0.0
    for prompt, size in zip(table, sizes):
        images, clusters = int(size.sum()), int((size > 0).sum())
        if clusters < 2:
            continue
        share = prompt.sum(axis=0) / images
        away = prompt - size[:, None] * share
        clustered += clusters / (clusters - 1) * float(np.square(away).sum()) / images**2
        independent += float((share * (1 - share)).sum()) / (images - 1)
    if not independent:
        return float(np.square(sizes).sum() / sizes.sum())
    return max(1.0, clustered / independent)


def whole_counts(values: ArrayLike) -> NDArray[np.int64]:
    """Return counts as whole numbers, or raise ValueError where one is negative or none."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub" and (array.size and not (np.mod(array, 1) == 0).all()):
        raise ValueError(f"counts: expected whole numbers, got {array.ravel()[:5].tolist()}")
    if (array < 0).any():
        raise ValueError(f"counts: expected none below 0, got {array.min()}")
    return array.astype(np.int64)


def _mean(clusters: Clusters, size: int) -> float:
    """The mean MAD of a prompt whose clusters are relabelled: by symmetry that of any one category."""
    images = sum(map(sum, clusters))
    chance = np.ones(1)  # of 0, 1, 2 ... images in the category
    for cluster in clusters:
        of_one = np.bincount(cluster, minlength=1).astype(float)
        of_one[0] += size - len(cluster)
        chance = np.convolve(chance, of_one / size)
    return float(chance @ np.abs(np.arange(len(chance)) / images - 1 / size))


def _drawn(kinds: dict[Clusters, int], size: int, draws: int, seed: int) -> NDArray[np.float64]:
    """MADs, mean over prompts, of clusters that are relabelled, shape (draws,)."""
    rng, total, even = np.random.default_rng(seed), np.zeros(draws), np.full(size, 1 / size)
    for clusters, repeats in kinds.items():
        alike = Counter(cluster[0] for cluster in clusters if len(cluster) == 1)
        for _ in range(repeats):
            counts = np.zeros((draws, size), np.int64)
            for count, times in sorted(alike.items()):
                counts += count * rng.multinomial(times, even, size=draws)
            for cluster in clusters:
                if len(cluster) > 1:
                    for count, category in zip(cluster, _distinct(len(cluster), size, rng, draws).T):
                        counts[np.arange(draws), category] += count
            total += np.abs(counts / sum(map(sum, clusters)) - 1 / size).mean(axis=1)
    return total / sum(kinds.values())


def _distinct(some: int, size: int, rng: np.random.Generator, draws: int) -> NDArray[np.int64]:
    """So many different categories, every order as likely, shape (draws, some)."""
    drawn = np.empty((draws, some), np.int64)
    for number in range(some):
        category = rng.integers(size - number, size=draws)
        for before in np.sort(drawn[:, :number], axis=1).T:
            category += category >= before
        drawn[:, number] = category
    return drawn


@lru_cache(maxsize=256)
def _chances(n: int, size: int) -> Chances | None:
    r"""Chances of :math:`\sum_i |c_i/n - 1/N|` for n images dealt evenly to N categories; None of too many states.

    The categories are gone through one by one, carrying (images dealt so far, distance so far) with its probability.
    """
    steps = np.abs(size * np.arange(n + 1) - n)
    unit = math.gcd(size * n, *(int(step) for step in steps))
    steps, length = steps // unit, 2 * size * n // unit + 1  # no distance between distributions exceeds 2
    if (n + 1) * length > LARGEST_SUPPORT or (n + 1) ** 2 * length * size > LARGEST_WORK:
        return None
    state = np.zeros((n + 1, length))
    state[0, 0] = 1.0
    for left in range(size, 0, -1):
        after, counts = np.zeros_like(state), np.arange(n + 1)
        chance = stats.binom.pmf(counts, n - counts[:, None], 1 / left)  # by images dealt so far
        for count in counts:
            before = state[: n + 1 - count, : max(length - steps[count], 0)]
            after[count:, steps[count] :] += chance[: n + 1 - count, count, None] * before
        state = after
    support = np.flatnonzero(state[n])
    unit, denominator = math.gcd(size * n // unit, *(int(step) for step in support)), size * n // unit
    return state[n, : support[-1] + 1 : unit], denominator // unit


def _chances_of_mean(sizes: dict[int, int], size: int) -> Chances | None:
    """Chances of the mean distance over so many prompts of each number of images; None where the grid is too fine."""
    parts = [(_chances(n, size), repeats) for n, repeats in sizes.items()]
    if any(chances is None for chances, _ in parts):
        return None
    denominator = math.lcm(*(chances[1] for chances, _ in parts))
    reach = sum((len(chance) - 1) * (denominator // own) * repeats for (chance, own), repeats in parts)
    if reach >= LARGEST_SUPPORT:
        return None
    total = np.ones(1)
    for (chance, own), repeats in parts:
        grid = np.zeros((len(chance) - 1) * (denominator // own) + 1)
        grid[:: denominator // own] = chance
        while repeats:  # by repeated squaring
            total = np.maximum(signal.convolve(total, grid), 0.0) if repeats & 1 else total
            repeats >>= 1
            grid = np.maximum(signal.convolve(grid, grid), 0.0) if repeats else grid
    return total, denominator * sum(sizes.values())
