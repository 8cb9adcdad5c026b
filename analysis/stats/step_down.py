"""Which of several means over prompts are not 0? Sign flips, adjusted step by step (Westfall and Young 1993).

`analysis.stats.sign_flips.sign_flip_test` holds every column against the largest statistic of the whole family. Here
one that follows larger ones is held against the largest of those that are left, which costs less where some are not 0,
and a column that is the same in every prompt takes part: so are the leans of a model that follows its words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.exact_sums import central_sums, on_grid
from analysis.stats.resampling import flipped_sums, matrix, sign_blocks
from analysis.stats.sign_flips import SignFlips

_ROUNDING = 1e-12  # relative, of sums of the same fractions and of columns of another scale


def step_down_test(values: ArrayLike, *, permutations: int = 10000, seed: int = 0) -> SignFlips:
    r"""Test for each column whether its mean over prompts is 0, and adjust over all columns step by step.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        Paired differences, a row per prompt; NaN where there is none. A row keeps or changes its sign in all columns
        at once, so that what its columns have in common stays.
    permutations : int
        All :math:`2^n` flips where these are at most so many, else so many that are drawn.
    seed : int

    Returns
    -------
    SignFlips
        NaN of a column without a value, 1 where all values are 0.

    Raises
    ------
    ValueError
        The shape is another, a value infinite, or `permutations` below 1.

    Source
    ------
    Westfall and Young 1993, algorithm 4.1, with the statistic :math:`|\sum_i x_i| / \sqrt{\sum_i x_i^2}`.

    Examples
    --------
    Five prompts: the first column is 2 in all of them, which 2 of 32 flips give, and 2 others bring the second column
    as far; this one is held against itself alone, and 12 of 32 flips bring it as far from 0.

    >>> found = step_down_test([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, -1.0]])
    >>> found.p_value.tolist(), found.p_adjusted.tolist()
    ([0.0625, 0.375], [0.125, 0.375])
    """
    table = matrix(values)
    if permutations < 1:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    rows, width = table.shape
    known = ~np.isnan(table).all(axis=0)
    p_value, p_adjusted = np.full((2, width), np.nan)
    exact = rows < 63 and 2**rows <= permutations
    total, extra = (2**rows, 0) if exact else (permutations, 1)
    whole = on_grid(table)[0]
    norm = np.sqrt(central_sums(whole, 0.0, 2)[0])
    p_value[known], p_adjusted[known] = 1.0, 1.0
    tested = np.flatnonzero(known & (norm > 0))
    sums = np.abs(whole.sum(axis=0))
    observed = sums[tested] / norm[tested]
    order = tested[np.argsort(-observed, kind="stable")]
    whole, sums, norm = whole[:, order], sums[order], norm[order]
    alone, reached = np.zeros((2, len(order)), np.int64)
    for flipped in flipped_sums(sign_blocks(rows, total, exact, seed), whole) if len(order) else ():
        flipped = np.abs(flipped)
        alone += (flipped >= (1 - _ROUNDING) * sums).sum(axis=0)
        left = np.maximum.accumulate((flipped / norm)[:, ::-1], axis=1)[:, ::-1]
        reached += (left >= (1 - _ROUNDING) * sums / norm).sum(axis=0)
    p_value[order] = (alone + extra) / (total + extra)
    p_adjusted[order] = np.maximum.accumulate((reached + extra) / (total + extra))
    return SignFlips(p_value, p_adjusted)
