"""The noise floor of a mean absolute deviation where images were drawn from the same noise.

Images of *person*, *woman* and *man* of one noise look alike, so they are no independent draws, and taken for such
their floor is too low and their p-value too small. Here the images of one noise are a **cluster**. What is held to be
without a difference is that every relabelling of the categories is as likely: for each cluster one permutation of the
categories is drawn, independent of those of other clusters, and all its images are relabelled by it. Each category is
then equally likely, and images of one noise agree as far as they did. It is a randomization test under this symmetry,
whatever the dependence within a cluster. Where every cluster has one image this is the even multinomial of
`analysis.stats.noise_floor.mad_floor`.

The floor is counted, since the mean of a sum does not ask how categories hang together; the p-value is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.noise_floor import DRAWS, mad_floor
from analysis.stats.noise_floor_result import NoiseFloor, floor_of_mean, whole_counts

# of a prompt: how often each cluster has its categories, in falling order
Clusters = tuple[tuple[int, ...], ...]


def clustered_mad_floor(counts: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NoiseFloor:
    r"""Mean absolute deviation from uniform, :math:`\frac1N \sum_i |p_i - \frac1N|`, mean over prompts, and its floor.

    Parameters
    ----------
    counts : array_like of int, shape (n_clusters, n_categories) or (n_prompts, n_clusters, n_categories)
        Images of each cluster in each category. A cluster without images is left out; a prompt without any is, too,
        and counted.
    draws, seed : int
        Of the p-value and the standard deviation. Where no cluster has a second image, as in `mad_floor`.

    Returns
    -------
    NoiseFloor
        With one cluster in each prompt every relabelling gives the score itself: the p-value is 1, the excess 0.

    Raises
    ------
    ValueError
        The shape is another, or a count is negative or no whole number.

    Notes
    -----
    Of c clusters whose images are all of one category, N^(1 - c) of the relabellings are as far from uniform: no
    smaller p-value can be had, nor one below 1 / (1 + draws).

    Source
    ------
    Cho et al. 2023, section 4.2.4, for the MAD; the floor is ours.

    Examples
    --------
    Two noises of three images, alike within each: relabelled they are alike, too, with one chance in two. Taken for six
    independent images, all alike would have one in 32.

    >>> result = clustered_mad_floor([[3, 0], [3, 0]])
    >>> result.value, result.floor, round(result.p_value, 1)
    (0.5, 0.25, 0.5)
    >>> round(mad_floor([6, 0]).p_value, 5)
    0.03125
    """
    table = _table(counts)
    of_prompts = table.sum(axis=1)
    if table.sum(axis=2).max(initial=0) <= 1 or table.shape[2] < 2:
        return mad_floor(of_prompts, draws=draws, seed=seed)
    images, size = of_prompts.sum(axis=1), table.shape[2]
    kept = of_prompts[images > 0]
    value = float(np.abs(kept / kept.sum(axis=1, keepdims=True) - 1 / size).mean())
    kinds = _kinds(table)
    parts = [(_drawn(clusters, size), repeats) for clusters, repeats in kinds]
    result = floor_of_mean(parts, value, int(images.sum()), int((images == 0).sum()), draws, seed)
    floor = sum(_mean(clusters, size) * repeats for clusters, repeats in kinds) / len(kept)
    return replace(result, floor=floor, excess=value - floor)


def clustered_mads(counts: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NDArray[np.float64]:
    """Return MADs, mean over prompts, that relabelling draws, shape (draws,); NaN without any image.

    The parameters are those of `clustered_mad_floor`.
    """
    table, rng = _table(counts), np.random.default_rng(seed)
    total, prompts = np.zeros(draws), 0
    for clusters, repeats in _kinds(table):
        draw = _drawn(clusters, table.shape[2])
        for _ in range(repeats):
            total += draw(rng, draws)
        prompts += repeats
    return total / prompts if prompts else np.full(draws, np.nan)


def _table(counts: ArrayLike) -> NDArray[np.int64]:
    """Counts of shape (n_prompts, n_clusters, n_categories)."""
    table = whole_counts(counts)
    if table.ndim not in (2, 3):
        raise ValueError(f"counts: expected shape (n_prompts, n_clusters, n_categories), got {table.shape}")
    return table[None] if table.ndim == 2 else table


def _kinds(table: NDArray[np.int64]) -> list[tuple[Clusters, int]]:
    """The clusters of each prompt, in an order of their own, and how many prompts have the same."""
    shares = -np.sort(-table, axis=2)
    prompts = [
        tuple(sorted(tuple(int(n) for n in cluster if n) for cluster in prompt if cluster.any()))
        for prompt in shares
    ]
    return sorted(Counter(clusters for clusters in prompts if clusters).items())


def _drawn(clusters: Clusters, size: int) -> Callable[[np.random.Generator, int], NDArray[np.float64]]:
    """A way to draw the MAD of a prompt whose clusters are relabelled."""
    alike = Counter(cluster[0] for cluster in clusters if len(cluster) == 1)
    mixed = [cluster for cluster in clusters if len(cluster) > 1]
    images = sum(map(sum, clusters))
    even = np.full(size, 1 / size)

    def draw(rng: np.random.Generator, draws: int) -> NDArray[np.float64]:
        total = np.zeros((draws, size), np.int64)
        for count, repeats in sorted(alike.items()):
            total += count * rng.multinomial(repeats, even, size=draws)
        for cluster in mixed:
            for count, category in zip(cluster, _distinct(len(cluster), size, rng, draws).T):
                total[np.arange(draws), category] += count
        return np.abs(total / images - 1 / size).mean(axis=1)

    return draw


def _distinct(some: int, size: int, rng: np.random.Generator, draws: int) -> NDArray[np.int64]:
    """Draw so many different categories, every order as likely, shape (draws, some)."""
    drawn = np.empty((draws, some), np.int64)
    for number in range(some):
        category = rng.integers(size - number, size=draws)
        for before in np.sort(drawn[:, :number], axis=1).T:
            category += category >= before
        drawn[:, number] = category
    return drawn


def _mean(clusters: Clusters, size: int) -> float:
    """The mean MAD of a prompt whose clusters are relabelled: by symmetry that of any one category."""
    images = sum(map(sum, clusters))
    chance = np.ones(1)  # of 0, 1, 2 ... images in the category
    for cluster in clusters:
        of_one = np.bincount(cluster, minlength=1).astype(float)
        of_one[0] += size - len(cluster)
        chance = np.convolve(chance, of_one / size)
    return float(chance @ np.abs(np.arange(len(chance)) / images - 1 / size))
