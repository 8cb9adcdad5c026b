"""Noise floors of mean absolute differences and MAD: how large a distance is when there is no difference at all.

A distance between frequencies cannot be negative, so chance alone gives a positive score: with nine images a
gender MAD of no bias is 0.137 on average. Each function below returns the score, its **floor** (the mean of the score
under the null), the score less the floor, and the probability of a score at least as far from "no difference" under
the null.

The distribution under the null is counted exactly wherever that is feasible (`analysis.stats.null_distribution`) and
drawn with an explicit seed otherwise; a drawn p-value is (1 + #) / (1 + draws) (Phipson and Smyth 2010).

What counts as independent matters more than exact or drawn. `mad_floor` needs counts only and takes every image as
independent; `paired_floor` keeps what belongs together (attributes of one image, seeds of one prompt).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.exact_sums import on_grid
from analysis.stats.noise_floor_result import (
    ALL_EQUAL,
    NO_IMAGES,
    ONE_CATEGORY,
    ONE_PROMPT,
    NoiseFloor,
    floor_of_mean,
    undefined_floor,
    whole_counts,
)
from analysis.stats.null_distribution import distance_from_uniform
from analysis.stats.resampling import flipped_sums, sign_blocks

DRAWS = 9999
_TOLERANCE = 1e-9


def paired_floor(differences: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NoiseFloor:
    r"""Mean absolute mean difference, :math:`\frac1m \sum_j |\frac1n \sum_i d_{ij}|`, beside its floor by sign flips.

    If the feminine and the masculine member of a prompt could have changed places, the sign of the whole row
    :math:`d_i` is a fair coin. All attributes of a prompt are flipped together, so attributes may depend on each
    other and seeds may share the prompt. With d the difference of the frequencies at each prompt this is GEP.

    Parameters
    ----------
    differences : array_like of float, shape (n_prompts, n_attributes)
        NaN where an attribute was not looked for at a prompt. An attribute without any value is left out and counted.
    draws : int
        All 2^n_prompts flips are counted where these are no more than `draws` + 1.
    seed : int

    Raises
    ------
    ValueError
        If the shape is another.

    Examples
    --------
    Two prompts that agree: the mean is 1 under (+, +) and (−, −), 0 under the other two flips.

    >>> result = paired_floor([[1.0], [1.0]])
    >>> result.value, result.floor, result.p_value
    (1.0, 0.5, 0.5)
    """
    rows = np.asarray(differences, np.float64)
    if rows.ndim != 2:
        raise ValueError(f"differences: expected shape (n_prompts, n_attributes), got {rows.shape}")
    rows = rows[~np.isnan(rows).all(axis=1)]
    count = (~np.isnan(rows)).sum(axis=0)
    undefined = int((count == 0).sum())
    if not count.any():
        return undefined_floor(NO_IMAGES, undefined)
    rows, count = rows[:, count > 0], count[count > 0]
    whole, exponent = on_grid(rows)  # exact sums: ties are ties, whatever the BLAS
    scale = np.ldexp(1.0, exponent) / count

    def score(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.abs(sums) * scale).mean(axis=-1)

    value = float(score(whole.sum(axis=0)))
    if len(rows) == 1:
        return undefined_floor(ONE_PROMPT, undefined, value=value, n=1)
    exact = len(rows) < 63 and 2 ** len(rows) <= draws + 1
    total = 2 ** len(rows) if exact else draws
    null = np.concatenate(
        [score(sums) for sums in flipped_sums(sign_blocks(len(rows), total, exact, seed), whole)]
    )
    reached = int((null >= value * (1 - _TOLERANCE) - 1e-15).sum())
    p_value = reached / total if exact else (1 + reached) / (1 + total)
    reason = ALL_EQUAL if not whole.any() else ""
    floor = float(null.mean())
    p_value = math.nan if reason else p_value
    return NoiseFloor(value, floor, float(null.std()), value - floor, p_value, len(rows), undefined, reason)


def mad_floor(counts: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NoiseFloor:
    r"""Mean absolute deviation from uniform, :math:`\frac1N \sum_i |p_i - \frac1N|`, mean over prompts, and its floor.

    Range 0 (uniform) to 2 (N − 1) / N² (one category only; 0.5 for two categories, 0.18 for ten).

    Parameters
    ----------
    counts : array_like of int, shape (n_categories,) or (n_prompts, n_categories)
        Images in each category. A prompt without images is left out and counted.
    draws, seed : int
        Used only where the exact distribution would need too fine a grid.

    Raises
    ------
    ValueError
        A count is negative or no whole number.

    Source
    ------
    Cho et al. 2023, section 4.2.4, for the MAD; the floor is ours.

    Examples
    --------
    Nine images in two categories cannot be even: the floor is 35/256.

    >>> result = mad_floor([5, 4])
    >>> round(result.value, 4), round(result.floor, 4), round(result.p_value, 4)
    (0.0556, 0.1367, 1.0)
    """
    table = np.atleast_2d(whole_counts(counts))
    categories = table.shape[1]
    images = table.sum(axis=1)
    undefined, table, images = int((images == 0).sum()), table[images > 0], images[images > 0]
    if categories < 2 or not len(table):
        return undefined_floor(ONE_CATEGORY if categories < 2 else NO_IMAGES, undefined)
    value = float(np.abs(table / images[:, None] - 1 / categories).sum(axis=1).mean())
    parts = [
        (distance_from_uniform(n, categories) or _drawn_from_uniform(n, categories), count)
        for n, count in Counter(images.tolist()).items()
    ]
    n = int(images.sum())
    return floor_of_mean(parts, value, n, undefined, draws, seed, scale=1 / categories)


def _drawn_from_uniform(n: int, categories: int) -> Callable[..., NDArray[np.float64]]:
    """Return a function that draws the L1 distance of n images from the uniform distribution they come from."""
    even = np.full(categories, 1 / categories)

    def draw(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.abs(rng.multinomial(n, even, size=size) / n - even).sum(axis=1)

    return draw
