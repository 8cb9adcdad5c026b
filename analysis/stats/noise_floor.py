"""How large is a distance when there is no difference at all? Noise floors for GEP, MAD, entropy and L1 distances.

A distance between frequencies cannot be negative, so chance alone gives a positive score: with nine images a
gender MAD of no bias is 0.137 on average. Each function below returns the score, its **floor** (the mean of the score
under the null), the score less the floor, and the probability of a score at least as far from "no difference" under
the null.

The distribution under the null is counted exactly wherever that is feasible (`analysis.stats.null_distribution`) and
drawn with an explicit seed otherwise; a drawn p-value is (1 + #) / (1 + draws) (Phipson and Smyth 2010).

What counts as independent matters more than exact or drawn. `gep_floor`, `mad_floor`, `entropy_floor` and the L1
floors need counts only, which is what papers publish, and take every image as independent. Where the table by
prompt exists, `paired_floor` keeps what belongs together (attributes of one image, seeds of one prompt). Pooled over
prompts that differ in frequency, counts give a floor that is if anything too high.
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
    ONE_KIND,
    ONE_PROMPT,
    NoiseFloor,
    drawn_sums,
    floor_of_mean,
    undefined_floor,
    whole_counts,
)
from analysis.stats.null_distribution import (
    distance_between_samples,
    entropy,
    entropy_distribution,
    frequency_difference,
    known_distance_from_reference,
)
from analysis.stats.resampling import flipped_sums, sign_blocks

DRAWS = 9999
BLOCK = 256  # flips drawn at a time; part of the definition: another value draws other numbers
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
        return undefined_floor(NO_IMAGES, undefined, null, seed)
    kinds = Counter(zip((k1 + k2).tolist(), n1.tolist(), n2.tolist()))
    parts = [(frequency_difference(*kind, null=null), count) for kind, count in kinds.items()]
    value = float(np.abs(k1 / n1 - k2 / n2).mean())
    constant = bool((((k1 + k2) == 0) | ((k1 + k2) == n1 + n2)).all())
    n = int(np.max(n1 + n2))
    return floor_of_mean(parts, value, n, undefined, null, draws, seed, reason=CONSTANT if constant else "")


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
    name = "sign flips"
    if not count.any():
        return undefined_floor(NO_IMAGES, undefined, name, seed)
    rows, count = rows[:, count > 0], count[count > 0]
    whole, exponent = on_grid(rows)  # exact sums: ties are ties, whatever the BLAS
    scale = np.ldexp(1.0, exponent) / count

    def score(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.abs(sums) * scale).mean(axis=-1)

    value = float(score(whole.sum(axis=0)))
    if len(rows) == 1:
        return undefined_floor(ONE_PROMPT, undefined, name, seed, value=value, n=1)
    exact = len(rows) < 63 and 2 ** len(rows) <= draws + 1
    total = 2 ** len(rows) if exact else draws
    null = np.concatenate(
        [score(sums) for sums in flipped_sums(sign_blocks(len(rows), total, exact, seed), whole)]
    )
    reached = int((null >= value * (1 - _TOLERANCE) - 1e-15).sum())
    p_value = reached / total if exact else (1 + reached) / (1 + total)
    reason = ALL_EQUAL if not whole.any() else ""
    floor = float(null.mean())
    return NoiseFloor(
        value,
        floor,
        float(null.std()),
        value - floor,
        math.nan if reason else p_value,
        len(rows),
        undefined,
        reason,
        name,
        exact,
        0 if exact else draws,
        seed,
    )


def l1_floor(
    counts: ArrayLike,
    *,
    reference: ArrayLike | None = None,
    scale: float = 1.0,
    draws: int = DRAWS,
    seed: int = 0,
) -> NoiseFloor:
    r"""Distance of frequencies from a reference, :math:`s \sum_i |c_i/n - r_i|`, mean over prompts, beside its floor.

    Parameters
    ----------
    counts : array_like of int, shape (n_categories,) or (n_prompts, n_categories)
        Images in each category. A prompt without images is left out and counted.
    reference : array_like of float, shape (n_categories,), optional
        The frequencies that mean "no difference"; uniform by default.
    scale : float
        s: 1 for the L1 distance (range 0 to 2), 1/2 for total variation, 1/n_categories for MAD.
    draws, seed : int
        Used only where the exact distribution would need too fine a grid.

    Raises
    ------
    ValueError
        If counts are negative, or the reference has another shape or does not sum to 1.

    Examples
    --------
    Two images of two categories: both alike or one each, with equal chances.

    >>> result = l1_floor([2, 0])
    >>> result.value, round(result.floor, 12), round(result.p_value, 12)
    (1.0, 0.5, 0.5)
    """
    table = np.atleast_2d(whole_counts(counts))
    categories = table.shape[1]
    if reference is None:
        expected = np.full(categories, 1 / max(categories, 1))
    else:
        expected = np.asarray(reference, np.float64)
    if expected.shape != (categories,) or abs(expected.sum() - 1) > 1e-9 or (expected < 0).any():
        raise ValueError(
            f"reference: expected {categories} frequencies that sum to 1, got {expected.tolist()}"
        )
    images = table.sum(axis=1)
    undefined, table, images = int((images == 0).sum()), table[images > 0], images[images > 0]
    if categories < 2 or not len(table):
        return undefined_floor(ONE_CATEGORY if categories < 2 else NO_IMAGES, undefined, "multinomial", seed)
    value = float(np.abs(table / images[:, None] - expected).sum(axis=1).mean())
    parts = []
    for n, count in Counter(images.tolist()).items():
        known = known_distance_from_reference(n, tuple(expected))
        parts.append((known or _drawn_from_reference(n, expected), count))
    n = int(images.sum())
    return floor_of_mean(parts, value, n, undefined, "multinomial", draws, seed, scale=scale)


def mad_floor(counts: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NoiseFloor:
    r"""Mean absolute deviation from uniform, :math:`\frac1N \sum_i |p_i - \frac1N|`, mean over prompts, and its floor.

    Range 0 (uniform) to 2 (N − 1) / N² (one category only; 0.5 for two categories, 0.18 for ten).

    Parameters
    ----------
    counts : array_like of int, shape (n_categories,) or (n_prompts, n_categories)
    draws, seed : int
        As in `l1_floor`.

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
    return l1_floor(counts, scale=1 / max(np.atleast_2d(counts).shape[1], 1), draws=draws, seed=seed)


def two_sample_l1_floor(
    first: ArrayLike, second: ArrayLike, *, scale: float = 1.0, draws: int = DRAWS, seed: int = 0
) -> NoiseFloor:
    r"""Distance between two tables of counts, :math:`s \sum_i |a_i/n_a - b_i/n_b|`, beside its permutation floor.

    Parameters
    ----------
    first, second : array_like of int, shape (n_categories,)
        Detections of each category. Under the null all of them are dealt to the two samples at random.
    scale : float
        1 for the L1 distance (range 0 to 2), 1/2 for total variation.
    draws, seed : int
        Used only where the exact walk over the categories would be too long.

    Raises
    ------
    ValueError
        If the shapes differ or a count is negative.

    Examples
    --------
    Two and two detections, each sample all of one kind: 2 of the 6 ways to deal them give this.

    >>> result = two_sample_l1_floor([2, 0], [0, 2])
    >>> result.value, round(result.floor, 4), round(result.p_value, 4)
    (2.0, 0.6667, 0.3333)
    """
    a, b = whole_counts(first), whole_counts(second)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"first, second: expected one shape (n_categories,), got {a.shape} and {b.shape}")
    undefined = int(a.sum() == 0) + int(b.sum() == 0)
    if undefined or len(a) < 2:
        return undefined_floor(NO_IMAGES if undefined else ONE_CATEGORY, undefined, "permutation", seed)
    value = float(np.abs(a / a.sum() - b / b.sum()).sum())
    totals, n_first, n_second = a + b, int(a.sum()), int(b.sum())

    def drawn(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        x = rng.multivariate_hypergeometric(totals, n_first, size=size, method="marginals")
        return np.abs(x / n_first - (totals - x) / n_second).sum(axis=1)

    null = distance_between_samples(totals, n_first) or drawn
    n = n_first + n_second
    reason = ONE_KIND if (totals > 0).sum() == 1 else ""
    return floor_of_mean([(null, 1)], value, n, 0, "permutation", draws, seed, scale=scale, reason=reason)


def entropy_floor(counts: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> NoiseFloor:
    r"""Normalised entropy :math:`-\sum_i p_i \ln p_i / \ln N`, mean over prompts, beside what uniform chance gives.

    Range 0 (one category only) to 1 (uniform). Chance pulls it down, so its "floor" lies below 1, a biased
    sample has a negative excess, and the p-value is that of the lower tail.

    Parameters
    ----------
    counts : array_like of int, shape (n_categories,) or (n_prompts, n_categories)
        A prompt without images is left out and counted.
    draws, seed : int
        The floor is exact up to some 60 images a prompt; the p-value is exact for one prompt and drawn for more.

    Raises
    ------
    ValueError
        If a count is negative.

    Examples
    --------
    Two images of two categories: entropy 0 or 1 with equal chances.

    >>> result = entropy_floor([2, 0])
    >>> [round(x, 12) for x in (result.value, result.floor, result.excess, result.p_value)]
    [0.0, 0.5, -0.5, 0.5]
    """
    table = np.atleast_2d(whole_counts(counts))
    categories = table.shape[1]
    images = table.sum(axis=1)
    undefined, table, images = int((images == 0).sum()), table[images > 0], images[images > 0]
    if categories < 2 or not len(table):
        return undefined_floor(ONE_CATEGORY if categories < 2 else NO_IMAGES, undefined, "multinomial", seed)
    value = float(entropy(table, categories).mean())
    rng = np.random.default_rng(seed)
    mean, variance, total, exact = 0.0, 0.0, np.zeros(draws), True
    for n, count in Counter(images.tolist()).items():
        known = entropy_distribution(n, categories)
        if known is None:
            uniform = np.full(categories, 1 / categories)
            sample = entropy(rng.multinomial(n, uniform, size=draws), categories)
            known, exact = (sample, np.full(draws, 1 / draws)), False
        values, weight = known
        centre = float(values @ weight)
        mean, variance = mean + count * centre, variance + count * float((values - centre) ** 2 @ weight)
        total += drawn_sums(values, weight, count, draws, rng)
    m = len(table)
    exact = exact and m == 1
    if exact:
        p_value = min(float(weight[values <= value + _TOLERANCE].sum()), 1.0)
    else:
        p_value = (1 + int((total / m <= value + _TOLERANCE).sum())) / (1 + draws)
    return NoiseFloor(
        value,
        mean / m,
        math.sqrt(variance) / m,
        value - mean / m,
        p_value,
        int(images.sum()),
        undefined,
        "",
        "multinomial",
        exact,
        0 if exact else draws,
        seed,
    )


def _drawn_from_reference(n: int, expected: NDArray[np.float64]) -> Callable[..., NDArray[np.float64]]:
    """A way to draw the L1 distance of n images from the reference they come from."""

    def draw(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        return np.abs(rng.multinomial(n, expected, size=size) / n - expected).sum(axis=1)

    return draw
