r"""Permutation tests over prompts: which prompts' members change places, and how far a statistic then is from 0.

A test holds a statistic against its values when members that could have changed places do: all arrangements are counted
where these are few, else so many are drawn from a seed, and the one at hand is counted with them (Phipson and Smyth
2010). A family is adjusted by the largest statistic of each arrangement (max-T; Westfall and Young 1993).

Sums are exact (`analysis.stats.resampling`), so ties are ties. SciPy has the sign-flip test for one column at a time,
without a shared family; the tests hold this against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.resampling import (
    BLOCK,
    FLIP_STREAM,
    ONE_PROMPT,
    central_sums,
    column_blocks,
    matrix,
    on_grid,
)

EXACT_SUM = 2000  # largest sum of absolute differences whose distribution is counted; above, the normal one
NO_IMAGES = "no images"
ALL_EQUAL = "no difference in any prompt"
_ROUNDING = 1e-12  # relative, of sums of the same fractions and of columns of another scale
_TOLERANCE = 1e-9  # relative, of statistics that are means of such sums


@dataclass(frozen=True)
class NoiseFloor:
    """A score that cannot be negative beside what no difference would give; NaN where undefined, for the `reason`.

    `floor` and `sd` are mean and standard deviation of the score under the null, `excess` is `value` - `floor`,
    `p_value` the probability under the null of a score at least as far from "no difference".
    """

    value: float = math.nan
    floor: float = math.nan
    sd: float = math.nan
    excess: float = math.nan
    p_value: float = math.nan
    reason: str = ""


def reached_share(null: NDArray[np.float64], observed: ArrayLike, exact: bool) -> NDArray[np.float64]:
    """Return the part of the arrangements (axis 0) with a statistic at least as large, the one at hand with them."""
    reached = (null >= np.asarray(observed) * (1 - _TOLERANCE) - 1e-15).sum(axis=0)
    extra = 0 if exact else 1
    return (reached + extra) / (len(null) + extra)


def number_of_flips(rows: int, permutations: int) -> tuple[int, bool]:
    """Return how many flips are taken of so many rows, and whether these are all; ValueError for none."""
    if permutations < 1:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    exact = rows < 63 and 2**rows <= permutations
    return (2**rows if exact else permutations), exact


@lru_cache(maxsize=1)
def sign_blocks(n: int, total: int, seed: int) -> list[NDArray[np.uint8]]:
    """Return which of n rows keep their sign under each of `total` flips: every combination (2^n), or drawn ones.

    Blocks of at most `BLOCK` flips, a bit a row as of `numpy.packbits`; kept, and not to be written to.
    """
    rng, blocks = np.random.default_rng([seed, FLIP_STREAM]), []
    for start in range(0, total, BLOCK):
        rows = min(BLOCK, total - start)
        if total == 2**n:
            ones = np.arange(start, start + rows)[:, None] >> np.arange(n) & 1
        else:
            ones = rng.integers(0, 2, (rows, n), dtype=np.int8)
        blocks.append(np.packbits(ones.astype(bool), axis=1))
    return blocks


def flipped_sums(whole: NDArray[np.float64], total: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield sums over rows of whole numbers under so many flips, a block at a time, shape (flips, n_columns)."""
    for packed in sign_blocks(len(whole), total, seed):
        kept = np.unpackbits(packed, axis=1, count=len(whole)).astype(float)
        yield 2.0 * (kept @ whole) - whole.sum(axis=0)


def paired_floor(differences: ArrayLike, *, draws: int = 9999, seed: int = 0) -> NoiseFloor:
    r"""Return the mean absolute mean difference, :math:`\frac1m \sum_j |\frac1n \sum_i d_{ij}|`, beside its floor.

    If the feminine and the masculine member of a prompt could have changed places, the sign of the whole row
    :math:`d_i` is a fair coin. All attributes of a prompt are flipped together, so attributes may depend on each
    other and seeds may share the prompt. With d the difference of the frequencies at each prompt this is GEP.

    Of differences (n_prompts, n_attributes), NaN where an attribute was not looked for; one without any value is left
    out. All flips are counted where these are no more than `draws` + 1.

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
    if not count.any():
        return NoiseFloor(reason=NO_IMAGES)
    rows, count = rows[:, count > 0], count[count > 0]
    whole, exponent = on_grid(rows)
    scale = np.ldexp(1.0, exponent) / count
    value = float((np.abs(whole.sum(axis=0)) * scale).mean())
    if len(rows) == 1:
        return NoiseFloor(value, reason=ONE_PROMPT)
    if not whole.any():
        return NoiseFloor(value, 0.0, 0.0, 0.0, math.nan, ALL_EQUAL)
    total, exact = number_of_flips(len(rows), draws + 1)
    sums = flipped_sums(whole, total if exact else draws, seed)
    null = np.concatenate([(np.abs(one) * scale).mean(axis=1) for one in sums])
    floor, p_value = math.fsum(null) / len(null), float(reached_share(null, value, exact))
    return NoiseFloor(value, floor, float(null.std()), value - floor, p_value, "")


def flip_p_values(differences: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`P(|\sum_i \pm d_i| \ge |\sum_i d_i|)` over all signs, for every column; 1 where all are 0.

    Of whole numbers (n_prompts, n_columns), such as differences of counts of images: of −1, 0 and 1 it is McNemar's
    exact test.

    Of eight arrangements of ±1, ±1, ±2 two are as far from 0 as 4.

    >>> flip_p_values([[1, 0], [1, 0], [2, 0]]).round(12).tolist()
    [0.25, 1.0]
    """
    differences = np.asarray(differences)
    sizes = np.abs(differences).astype(np.int64)
    steps = range(1, int(sizes.max(initial=0)) + 1)
    counts = np.array([(sizes == step).sum(axis=0) for step in steps], np.int64)
    counts = counts.reshape(len(steps), sizes.shape[1])
    return flip_p_of_counts(counts, differences.sum(axis=0))


def flip_p_of_counts(counts: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Return `flip_p_values` from how many prompts of a column differ by 1, 2, …, and the sum of their differences.

    The sum has the characteristic function :math:`\prod_i \cos(d_i \theta)`; its distribution is the inverse discrete
    Fourier transform over as many points as it has values.
    """
    steps = np.arange(1, len(counts) + 1)[:, None]
    observed, size, differ = np.abs(sums).astype(np.int64), (steps * counts).sum(axis=0), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * special.ndtr(-observed / np.sqrt((steps**2 * counts).sum(axis=0)))
    p_value[size == 0] = 1.0
    single = (size == differ) & (size > 0)  # all differ by one: binomial
    fewer = (differ - observed)[single] // 2
    p_value[single] = np.minimum(1, 2 * special.bdtr(fewer, differ[single], 0.5))
    few = np.flatnonzero(~single & (size > 0) & (size <= EXACT_SUM))
    if not len(few):
        return p_value
    reach = int(size[few].max())
    points = 2 * reach + 1
    angles = 2 * np.pi * np.arange(reach + 1) / points  # the others are these mirrored
    values = np.ones((len(few), reach + 1))
    for step, count in enumerate(counts[:, few], 1):
        times, which = np.unique(count, return_inverse=True)
        if times[-1]:
            values *= (np.cos(step * angles) ** times[:, None])[which]
    chance = np.fft.irfft(values, points, axis=1)[:, : reach + 1]  # of the sums 0, 1, …, reach
    inner = np.where(np.arange(reach + 1) < observed[few][:, None], chance, 0.0)
    inside = 2 * inner.sum(axis=1) - inner[:, 0]
    p_value[few] = np.clip(1 - inside, 2.0 ** (1 - np.minimum(differ[few], 1000)), 1)
    return p_value


@dataclass(frozen=True)
class SignFlips:
    """Sign-flip tests of the means of a family of columns, of each alone (`p_value`) and adjusted over the family.

    Arrays of shape (n_columns,), NaN where undefined; `p_adjusted` is never below `p_value`.
    """

    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]


@dataclass(frozen=True)
class FlipColumns:
    r"""Some columns of a family under its flips, not yet adjusted.

    `observed` is the statistic that is adjusted, :math:`|\sum_i x_i| / \sqrt{\sum_i x_i^2}`, NaN where undefined;
    `largest`, shape (permutations,), its maximum over these columns under each flip, -inf without a column that is
    defined; `exact` whether every flip was counted.
    """

    p_value: NDArray[np.float64]
    observed: NDArray[np.float64]
    largest: NDArray[np.float64]
    exact: bool


def sign_flip_test(values: ArrayLike, *, permutations: int = 10000, seed: int = 0) -> SignFlips:
    r"""Return tests for each column whether its mean over prompts is 0, adjusted over all columns.

    If the two members that are compared could have changed places, the sign of each prompt's difference is a
    fair coin. The p-value is the part of all flips whose absolute mean is at least the one observed, the
    observed one counted: exact over all :math:`2^n` flips where these are at most `permutations`, else
    :math:`(1 + \#)/(1 + \mathrm{permutations})` over flips that are drawn.

    Adjusted (Westfall and Young's single-step max-T): the part of all flips in which any column of the family has a
    statistic of at least this column's, :math:`|\sum_i x_i| / \sqrt{\sum_i x_i^2}`. It grows with Student's t alike in
    all columns, so columns of different scale compete on equal terms. NaN with fewer than two prompts and where all
    values are 0; such columns take no part in the family. ValueError as `matrix`, or for no permutation.

    Three prompts that agree in sign: of 8 flips only all-plus and all-minus reach the mean. The second column
    is reached by 4: its first two values cancel or add up, and the third is 0.

    >>> result = sign_flip_test([[1.0, 1.0], [2.0, 1.0], [3.0, 0.0]])
    >>> result.p_value.tolist()
    [0.25, 0.5]

    Statistics: 6 / sqrt(14) = 1.60 and 2 / sqrt(2) = 1.41, and 4 of 8 flips (first two signs alike) give the
    second column 1.41, two of them (all alike) the first 1.60 as well.

    >>> result.p_adjusted.tolist()
    [0.25, 0.5]
    """
    return adjusted_together([flip_columns(values, permutations=permutations, seed=seed)])


def adjusted_together(shares: Sequence[FlipColumns]) -> SignFlips:
    """Return the tests of a family's columns, tested some at a time under the same flips, adjusted over all of them."""
    p_value, observed = (
        np.concatenate([getattr(share, name) for share in shares]) for name in ("p_value", "observed")
    )
    total, extra = len(shares[0].largest), 0 if shares[0].exact else 1
    largest = np.sort(np.maximum.reduce([share.largest for share in shares]))
    defined, p_adjusted = ~np.isnan(observed), np.full(len(observed), np.nan)
    exceeded = total - np.searchsorted(largest, observed[defined], side="left")
    p_adjusted[defined] = (exceeded + extra) / (total + extra)
    return SignFlips(p_value, p_adjusted)


def flip_columns(values: ArrayLike, *, permutations: int = 10000, seed: int = 0) -> FlipColumns:
    """Return the tests of some columns of a family, with all of its rows, as `sign_flip_test` has them."""
    values = matrix(values)
    rows, width = values.shape
    total, exact = number_of_flips(rows, permutations)
    extra = 0 if exact else 1
    p_value, observed = np.full((2, width), np.nan)
    largest = np.full(total, -np.inf)
    known = ((~np.isnan(values)).sum(axis=0) > 1) & np.nan_to_num(values).any(axis=0)
    for block in column_blocks(width, rows=max(rows, BLOCK)):
        place = np.flatnonzero(known[block]) + block.start
        if not len(place):
            continue
        whole = on_grid(values[:, place])[0]
        sums, norm = np.abs(whole.sum(axis=0)), np.sqrt(central_sums(whole, 0.0, 2)[0])
        reached, done = np.zeros(len(place), np.int64), 0
        for flipped in flipped_sums(whole, total, seed):
            flipped = np.abs(flipped)
            reached += (flipped >= sums).sum(axis=0)
            span = slice(done, done + len(flipped))
            largest[span] = np.maximum(largest[span], (flipped / norm).max(axis=1))
            done += len(flipped)
        p_value[place], observed[place] = (reached + extra) / (total + extra), sums / norm
    return FlipColumns(p_value, observed, largest, exact)


def step_down_test(values: ArrayLike, *, permutations: int = 10000, seed: int = 0) -> SignFlips:
    """Return `sign_flip_test` adjusted step by step (Westfall and Young 1993, algorithm 4.1).

    A column that follows larger ones is held against the largest of those that are left, which costs less where some
    are not 0, and a column that is the same in every prompt takes part: so are the leans of a model that follows its
    words. NaN of a column without a value, 1 where all values are 0.

    Five prompts: the first column is 2 in all of them, which 2 of 32 flips give, and 2 others bring the second column
    as far; this one is held against itself alone, and 12 of 32 flips bring it as far from 0.

    >>> found = step_down_test([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, -1.0]])
    >>> found.p_value.tolist(), found.p_adjusted.tolist()
    ([0.0625, 0.375], [0.125, 0.375])
    """
    table = matrix(values)
    rows, width = table.shape
    total, exact = number_of_flips(rows, permutations)
    extra = 0 if exact else 1
    whole = on_grid(table)[0]
    norm, sums = np.sqrt(central_sums(whole, 0.0, 2)[0]), np.abs(whole.sum(axis=0))
    p_value, p_adjusted = np.where(np.isnan(table).all(axis=0), np.nan, np.ones((2, width)))
    tested = np.flatnonzero(norm > 0)
    order = tested[np.argsort(-(sums / np.where(norm > 0, norm, 1))[tested], kind="stable")]
    whole, sums, norm = whole[:, order], sums[order] * (1 - _ROUNDING), norm[order]
    alone, reached = np.zeros((2, len(order)), np.int64)
    for flipped in flipped_sums(whole, total, seed) if len(order) else ():
        flipped = np.abs(flipped)
        alone += (flipped >= sums).sum(axis=0)
        left = np.maximum.accumulate((flipped / norm)[:, ::-1], axis=1)[:, ::-1]
        reached += (left >= sums / norm).sum(axis=0)
    p_value[order] = (alone + extra) / (total + extra)
    p_adjusted[order] = np.maximum.accumulate((reached + extra) / (total + extra))
    return SignFlips(p_value, p_adjusted)
