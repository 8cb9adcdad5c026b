"""Do groups (professions) differ from one another? Whole noises change places between groups, all columns together.

The images of one noise resemble each other whatever the word, and the attributes of one image hang together. A unit is
therefore all that was read of the images of one group and draw: for every word and question at once. Units of one draw
change places among the groups, which is right whether or not groups share the noise of a draw. Where the groups are
alike every such arrangement was as likely, and the largest statistic of an arrangement adjusts for all columns, however
they depend on each other (max-T; Westfall and Young 1993).

A single group is held against all others by Welch's t, so that a group whose values vary more is not said to have
another mean (Janssen 1997; Chung and Romano 2013), brought to the scale of a normal deviate by its degrees of freedom
(Wallace 1959). No variance below that of all units is taken: a group whose few values happen to be equal is not
infinitely far off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from analysis.stats.resampling import GROUP_STREAM

ONE_GROUP = "fewer than two groups with images"
ONE_DRAW = "one image of each group: any arrangement is as the observed one"
CONSTANT = "the same in every image"
_BLOCK = 250  # arrangements at a time
_CELLS = 40_000  # values of arrangements, groups and columns at a time: they stay in the cache
_ROUNDING = 1e-9


@dataclass(frozen=True)
class GroupSwaps:
    """How far groups differ; arrays of shape (n_columns,), with the `reason` why there is no p-value.

    `explained` is the sum of squares between groups over that of all units, 0 to 1 (eta squared), `floor` its mean over
    arrangements; `p_value` is of single columns, `p_adjusted` over all of them; `groups` and `units` have a value;
    `group_p_value`, shape (n_groups, n_columns), is of each group's mean against that of the other groups.
    """

    explained: NDArray[np.float64]
    floor: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    groups: NDArray[np.int64]
    units: NDArray[np.int64]
    group_p_value: NDArray[np.float64]
    reason: NDArray[np.object_]


def group_swaps(values: ArrayLike, *, draws: int = 1999, seed: int = 0) -> GroupSwaps:
    """Return tests whether groups differ, in every column and adjusted over columns.

    Of values (n_groups, n_draws, n_columns), NaN where nothing was decided; a group without any takes no part.
    Arrangements are drawn, and p-values (1 + #) / (1 + draws). ValueError for another shape.

    Four groups and six draws; in the first column two groups differ from the other two, in the second none.

    >>> values = np.zeros((4, 6, 2))
    >>> values[:2, :, 0] = 1
    >>> values[:, ::2, 1] = 1
    >>> found = group_swaps(values, draws=199)
    >>> found.explained.tolist(), bool(found.p_adjusted[0] < 0.05), bool(found.p_value[1] == 1)
    ([1.0, 0.0], True, True)
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 3:
        raise ValueError(f"values: expected shape (n_groups, n_draws, n_columns), got {table.shape}")
    n_groups, _, width = table.shape
    taking = ~np.isnan(table).all(axis=(1, 2))
    kept = table[taking]
    known = ~np.isnan(kept)
    units = known.sum(axis=(0, 1))
    groups = known.any(axis=1).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = np.where(known, kept, 0.0).sum(axis=(0, 1)) / units
    away = np.where(known, kept - middle, 0.0)
    total = (away**2).sum(axis=(0, 1))
    everyone = np.broadcast_to(np.arange(len(kept))[None, :, None], (1, *kept.shape[:2]))
    observed, means = _statistics(away, known, everyone)
    reason = np.full(width, "", dtype=object)
    reason[total <= _ROUNDING * np.maximum(units, 1)] = CONSTANT
    if kept.shape[1] < 2:
        reason[:] = ONE_DRAW
    reason[groups < 2] = ONE_GROUP
    of_groups = np.zeros((len(kept), width))
    drawn = np.zeros((draws, width))
    rng = np.random.default_rng([seed, GROUP_STREAM])
    for start in range(0, draws, _BLOCK):
        size = min(_BLOCK, draws - start)
        order = np.tile(np.arange(len(kept)), (size, 1))
        places = np.stack([rng.permuted(order, axis=1) for _ in range(kept.shape[1])], axis=2)
        step = max(1, _CELLS // max(1, len(kept) * width))
        for first in range(0, size, step):
            between, own = _statistics(away, known, places[first : first + step])
            drawn[start + first : start + first + len(between)] = between
            of_groups += (own >= means - _ROUNDING).sum(axis=0)
    reached = (drawn >= observed - _ROUNDING * total).sum(axis=0)
    told = reason == ""
    with np.errstate(invalid="ignore", divide="ignore"):
        centre, spread = drawn.mean(axis=0), drawn.std(axis=0)
        score = np.where(told & (spread > 0), (drawn - centre) / spread, -np.inf)
        own_score = np.where(told & (spread > 0), (observed[0] - centre) / spread, -np.inf)
        largest = score.max(axis=1, initial=-np.inf)
        adjusted = (1 + (largest[:, None] >= own_score - _ROUNDING).sum(axis=0)) / (1 + draws)
        explained, floor = observed[0] / total, centre / total
    p_value = (1 + reached) / (1 + draws)
    group_p = np.full((n_groups, width), np.nan)
    group_p[taking] = np.where(told & known.any(axis=1), (1 + of_groups) / (1 + draws), np.nan)
    return GroupSwaps(
        *(np.where(told, one, np.nan) for one in (explained, floor, p_value, np.maximum(adjusted, p_value))),
        *(groups, units, group_p, reason),
    )


def _statistics(
    away: NDArray[np.float64], known: NDArray[np.bool_], places: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of squares between groups, and how many standard errors each group is off the others.

    `away`: what was read less the mean of the column, 0 where nothing is `known`, shape (n_groups, n_draws, n_columns);
    `places`: the group whose unit of a draw each group gets, (n_arrangements, n_groups, n_draws). Shapes
    (n_arrangements, n_columns) and (n_arrangements, n_groups, n_columns), Welch's t as a normal deviate without sign.
    """
    n_groups, n_draws, width = away.shape
    columns = (places * n_draws + np.arange(n_draws)).ravel()
    starts = np.arange(0, len(columns) + 1, n_draws)
    shape = (len(starts) - 1, n_groups * n_draws)
    chosen = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    sums, squares, counts = (
        (chosen @ one.reshape(n_groups * n_draws, width)).reshape(len(places), n_groups, width)
        for one in (away, away**2, known.astype(float))
    )
    total = (away**2).sum(axis=(0, 1))
    units, others = np.maximum(counts, 1.0), np.maximum(known.sum(axis=(0, 1)) - counts, 1.0)
    everyone = units + others - 1
    least = total / everyone  # no variance is taken to be smaller
    products = sums**2
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where(units > 1, (squares - products / units) / (units - 1), np.nan)
        rest = np.where(others > 1, (total - squares - products / others) / (others - 1), np.nan)
        first, second = np.fmax(own, least) / units, np.fmax(rest, least) / others
        error = first + second
        freedom = error**2 / (
            first**2 / np.where(own > least, units - 1, everyone)
            + second**2 / np.where(rest > least, others - 1, everyone)
        )
        t = products * (1 / units + 1 / others) ** 2 / error
        off = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t / freedom))
    return (products / units).sum(axis=1), np.where(error > 0, off, 0.0)
