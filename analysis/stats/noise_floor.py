"""Noise floors of GEP and MAD: how large a distance is when there is no difference at all.

A distance between frequencies cannot be negative, so chance alone gives a positive score: with nine images a
gender MAD of no bias is 0.137 on average. Each function below returns the score, its **floor** (the mean of the score
under the null), the score less the floor, and the probability of a score at least as far from "no difference" under
the null.

The distribution under the null is counted exactly wherever that is feasible (`analysis.stats.null_distribution`) and
drawn with an explicit seed otherwise; a drawn p-value is (1 + #) / (1 + draws) (Phipson and Smyth 2010).

What counts as independent matters more than exact or drawn. `gep_floor` and `mad_floor` need
counts only, which is what papers publish, and take every image as independent. Where the table by prompt exists,
`paired_floor` keeps what belongs together (attributes of one image, seeds of one prompt). Pooled over prompts that
differ in frequency, counts give a floor that is if anything too high.
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
    CONSTANT,
    NO_IMAGES,
    ONE_CATEGORY,
    ONE_PROMPT,
    NoiseFloor,
    floor_of_mean,
    undefined_floor,
    whole_counts,
)
from analysis.stats.null_distribution import distance_from_uniform, frequency_difference
from analysis.stats.resampling import flipped_sums, sign_blocks

DRAWS = 9999
_TOLERANCE = 1e-9


def gep_floor(
    k_first: ArrayLike,
    n_first: ArrayLike,
    k_second: ArrayLike,
    n_second: ArrayLike,
    *,
    null: str = "permutation",
    draws: int = DRAWS,
    seed: int = 0,
) -> NoiseFloor:
    r"""GEP score :math:`\frac1m \sum_j |k_{1j}/n_{1j} - k_{2j}/n_{2j}|` beside its floor.

    Range 0 to 1; 0 is no difference, and no sample of any size gives 0 on average.

    Parameters
    ----------
    k_first, k_second : array_like of int, shape (n_attributes,)
        Images that have the attribute, generated from feminine and from masculine prompts.
    n_first, n_second : int or array_like of int, shape (n_attributes,)
        Images in all. An attribute without images in either sample is left out and counted.
    null : {"permutation", "pooled"}
        See `null_distribution.frequency_difference`.
    draws, seed : int
        Used only where the exact distribution would need too fine a grid (many unequal sample sizes).

    Notes
    -----
    Attributes are taken as independent. The floor does not depend on this; the p-value does. It holds where each
    attribute has its own images (GEP's explicit setting) and is a little too small or too large where one
    image is read for all attributes (the neutral setting).

    Raises
    ------
    ValueError
        If shapes differ or a count is negative or larger than its sample.

    Source
    ------
    Zhang et al. 2023, Eq. 1 and 2, for the score; the floor is ours.

    Examples
    --------
    One attribute, once in two images against never in two: the score is 1/2, and chance always gives 1/2.

    >>> result = gep_floor([1], 2, [0], 2)
    >>> [round(x, 12) for x in (result.value, result.floor, result.excess, result.p_value)]
    [0.5, 0.5, 0.0, 1.0]
    """
    k1, n1, k2, n2 = (
        a.ravel() for a in np.broadcast_arrays(*map(whole_counts, (k_first, n_first, k_second, n_second)))
    )
    if (k1 > n1).any() or (k2 > n2).any():
        raise ValueError("counts: expected no more images with an attribute than images, got more")
    keep = (n1 > 0) & (n2 > 0)
    k1, n1, k2, n2 = k1[keep], n1[keep], k2[keep], n2[keep]
    undefined = int((~keep).sum())
    if not keep.any():
        return undefined_floor(NO_IMAGES, undefined)
    kinds = Counter(zip((k1 + k2).tolist(), n1.tolist(), n2.tolist()))
    parts = [(frequency_difference(*kind, null=null), count) for kind, count in kinds.items()]
    value = float(np.abs(k1 / n1 - k2 / n2).mean())
    constant = bool((((k1 + k2) == 0) | ((k1 + k2) == n1 + n2)).all())
    n = int(np.max(n1 + n2))
    return floor_of_mean(parts, value, n, undefined, draws, seed, reason=CONSTANT if constant else "")


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
    >>> result.value, result.floor, result.p_value, result.exact
    (1.0, 0.5, 0.5, True)
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
    return NoiseFloor(
        value, floor, float(null.std()), value - floor, p_value, len(rows), undefined, reason, exact
    )


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
