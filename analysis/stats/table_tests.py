"""Tests of whole tables of objects between indicators: label swaps of triplets, and the papers' chi-square.

The chi-square test of pooled detections takes every detection as an independent draw. Ten detections of one thing in
one image are not ten draws (then it rejects far too often), and members of a triplet share prompt and noise (then it
rejects far too seldom). The same statistic is therefore held against its distribution under swaps of the indicators
within prompts, all seeds and objects of a prompt together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations as arrangements
from math import factorial, nan

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import NEVER, NO_DIFFERENCE, NO_IMAGES
from analysis.stats.resampling import BLOCK, ONE_PROMPT, SWAP_STREAM

ONE_OBJECT = "fewer than two objects detected"
DENSE = 0.05  # share of cells with a count from which a dense product is quicker; no result depends on it
SLAB = 2048  # prompts of a dense product, which so stay near the processor; no result depends on it
LISTED = 5  # indicators: the orders of more are drawn one by one, for 10! are too many to list
EMPTY_INDICATOR = "an indicator without any detection"


@dataclass(frozen=True)
class LabelSwaps:
    """Label-swap test of an object table.

    Attributes
    ----------
    statistic : float
        Pearson's chi-square of the objects × indicators table; NaN where undefined.
    floor : float
        Its mean under the swaps: what no difference gives.
    p_value : float
    cramers_v, cramers_v_floor : float
        The same as effect size, 0 to 1, and its mean under the swaps: V cannot be 0 by chance alone.
    reason : str
        Why the table has no p-value; empty where it has.
    exact : bool
        Whether every swap was counted.
    permutations : int
    """

    statistic: float
    floor: float
    p_value: float
    cramers_v: float
    cramers_v_floor: float
    reason: str
    exact: bool
    permutations: int


@dataclass(frozen=True)
class ChiSquare:
    """Pearson's chi-square of an objects × indicators table, with what it takes to judge it.

    Attributes
    ----------
    statistic, p_value, cramers_v : float
        NaN where undefined.
    dof : int
    smallest_expected : float
        Smallest expected count; the test wants at least 5.
    expected_below_5 : int
        Cells below it, of `cells`.
    cells : int
    detections_per_image : float
        Mean detections of an object in an image that has it; 1 means none is repeated.
    reason : str
        Why the statistic is NaN; empty where it is not.
    warnings : tuple of str
        Why the p-value does not hold; empty if nothing speaks against it.
    """

    statistic: float
    p_value: float
    cramers_v: float
    dof: int
    smallest_expected: float
    expected_below_5: int
    cells: int
    detections_per_image: float
    reason: str
    warnings: tuple[str, ...]


def label_swap_test(
    table: ObjectTable, *, of: str = "presence", permutations: int = 2000, seed: int = 0
) -> LabelSwaps:
    r"""Test whether the indicators of a prompt could have changed places, for all objects together.

    Under the null each prompt's indicators are in random order. All k!^n orders are counted where that is at most
    `permutations`, else so many are drawn and the p-value is (1 + #) / (1 + permutations).

    Parameters
    ----------
    table : ObjectTable
        Two or more indicators; `ObjectTable.select` takes a pair out of a triplet.
    of : {"presence", "detections"}
    permutations, seed : int

    Raises
    ------
    ValueError
        `permutations` is below 1.

    Source
    ------
    Pitman 1937; Phipson and Smyth 2010 for the + 1.

    Examples
    --------
    Hat and cup at two prompts, exchanged between the words: half of the four orders are as extreme.

    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(2) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> counts = [[1, 0], [0, 1]] * 2
    >>> table = object_table(images, counts, indicators="fm", objects=["hat", "cup"])
    >>> result = label_swap_test(table)
    >>> result.statistic, result.floor, result.p_value, result.exact
    (4.0, 2.0, 0.5, True)
    """
    if permutations < 1:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    values, k, n_prompts = table.values(of), len(table.indicators), len(table.prompts)
    observed = table.by_object(values)
    varied = (values != values[:, :1]).any(axis=1)
    exact = n_prompts < 63 and factorial(k) ** n_prompts <= permutations
    total, extra = (factorial(k) ** n_prompts, 0) if exact else (permutations, 1)
    (statistic,), shown = _pearson(observed[:, :, None])
    statistic, reason = float(statistic), _table_reason(table, observed, bool(varied.any()))
    v = _cramers_v(statistic, observed, shown)
    if n_prompts < 2 or not varied.any():
        return LabelSwaps(statistic, nan, nan, v, nan, reason, exact, total)
    swapped = _swapped_totals(table, values, varied, total, exact, seed)
    null = np.concatenate([_pearson(block)[0] for block in swapped])
    beyond = (null >= statistic - 1e-9 * max(abs(statistic), 1)).sum()
    p_value = nan if reason else float((beyond + extra) / (total + extra))
    v_floor = _cramers_v(np.sqrt(null).mean() ** 2, observed, shown)
    return LabelSwaps(statistic, float(null.mean()), p_value, v, v_floor, reason, exact, total)


def _swapped_totals(
    table: ObjectTable,
    values: NDArray[np.int64],
    varied: NDArray[np.bool_],
    total: int,
    exact: bool,
    seed: int,
) -> Iterator[NDArray[np.float32]]:
    """Totals by object and indicator under swaps, in blocks of shape (n_objects, k, swaps)."""
    k, n_objects, n_prompts = values.shape[1], len(table.objects), len(table.prompts)
    # equal in all: swaps do nothing
    fixed = np.bincount(table.object[~varied], values[~varied, 0], n_objects)
    kind = np.float32 if (k + 1) * values.sum() < 2**24 else np.float64  # whole numbers stay exact
    where = (table.object[varied], table.prompt[varied])
    cells = values[varied].astype(kind)
    sums = np.stack([np.bincount(where[0], cells[:, s], n_objects) for s in range(k)]).astype(kind)
    # each goal has one source, so what goes there is the last source's count and, by swap, another's less it
    surplus = [_counts(cells[:, s] - cells[:, -1], where, (n_objects, n_prompts)) for s in range(k - 1)]
    for goes in _orders(k, n_prompts, total, exact, seed):
        swaps = goes(0, 0).shape[1]
        result = np.empty((n_objects, k, swaps), kind)
        for goal in range(k - 1):
            images = np.repeat(sums[-1][:, None], swaps, axis=1)
            for source, matrix in enumerate(surplus):
                _add_product(images, matrix, goes(source, goal))
            result[:, goal] = images
        result[:, k - 1] = sums.sum(axis=0)[:, None] - result[:, : k - 1].sum(axis=1)
        result += fixed.astype(kind)[:, None, None]
        yield result


def _counts(
    cells: NDArray, where: tuple[NDArray, NDArray], shape: tuple[int, int]
) -> sparse.csr_array | NDArray:
    """Cells as a matrix of objects × prompts: dense where its products are quicker so."""
    matrix = sparse.csr_array((cells, where), shape=shape)
    matrix.eliminate_zeros()
    return matrix if matrix.nnz < DENSE * shape[0] * shape[1] else matrix.toarray()


def _add_product(total: NDArray, matrix: sparse.csr_array | NDArray, chosen: NDArray[np.bool_]) -> None:
    """Add matrix @ chosen, some prompts at a time: whole numbers, so their order is nothing to the sum."""
    if sparse.issparse(matrix):
        total += matrix @ chosen.astype(total.dtype)
        return
    for start in range(0, len(chosen), SLAB):
        rows = slice(start, start + SLAB)
        total += matrix[:, rows] @ chosen[rows].astype(total.dtype)


def _orders(
    k: int, n_prompts: int, total: int, exact: bool, seed: int
) -> Iterator[Callable[[int, int], NDArray[np.bool_]]]:
    """Orders of every prompt's indicators, so many swaps at a time.

    Yields
    ------
    callable
        From a source and a goal to whether the one goes to the other, shape (n_prompts, swaps).
    """
    rng = np.random.default_rng([seed, SWAP_STREAM])
    listed = np.array(list(arrangements(range(k))), np.int8) if exact or k <= LISTED else None
    for start in range(0, total, BLOCK):
        width = min(BLOCK, total - start)
        if listed is None:
            unmoved = np.broadcast_to(np.arange(k, dtype=np.int8), (n_prompts, width, k))
            goals = rng.permuted(unmoved, axis=2)
            yield lambda source, goal, goals=goals: goals[:, :, source] == goal
            continue
        if exact:
            number = np.arange(start, start + width)[None, :]
            drawn = number // len(listed) ** np.arange(n_prompts)[:, None] % len(listed)
        else:
            drawn = rng.integers(0, len(listed), (n_prompts, width), dtype=np.int8)
        yield lambda source, goal, drawn=drawn: _any_of(
            drawn, np.flatnonzero(listed[:, source] == goal).tolist()
        )


def _any_of(drawn: NDArray, orders: Sequence[int]) -> NDArray[np.bool_]:
    """Return where one of these orders was drawn: comparisons of bytes, quicker than a lookup table."""
    chosen = drawn == orders[0]
    for order in orders[1:]:
        chosen |= drawn == order
    return chosen


def _pearson(totals: NDArray) -> tuple[NDArray[np.float64], int]:
    """Pearson's chi-square of each table, shape (n_objects, k, n_tables), and the objects that were ever seen."""
    squared = np.square(totals, dtype=np.float64)
    rows = totals[:, :, 0].sum(axis=1, dtype=np.float64)
    seen = rows > 0
    columns = totals.sum(axis=0, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (squared[seen] / rows[seen, None, None]).sum(axis=0) / columns
        excess = np.where(columns > 0, share, 0.0).sum(axis=0) - 1  # below 0 by rounding alone
        return rows.sum() * np.maximum(excess, 0.0), int(seen.sum())


def _cramers_v(statistic: float, observed: NDArray[np.int64], seen: int) -> float:
    side = min(seen, int((observed.sum(axis=0) > 0).sum())) - 1
    size = int(observed.sum())
    return float(np.sqrt(max(statistic, 0.0) / (size * side))) if side > 0 and size > 0 else nan


def _table_reason(table: ObjectTable, observed: NDArray[np.int64], varied: bool) -> str:
    if len(table.prompts) < 2:
        return NO_IMAGES if len(table.prompts) == 0 else ONE_PROMPT
    if not observed.any():
        return NEVER
    if (observed.sum(axis=1) > 0).sum() < 2:
        return ONE_OBJECT
    return "" if varied else NO_DIFFERENCE


def chi_square_test(table: ObjectTable, *, of: str = "detections") -> ChiSquare:
    r"""The papers' own test: Pearson's chi-square of pooled counts, with what speaks against its p-value.

    Parameters
    ----------
    table : ObjectTable
    of : {"detections", "presence"}
        ``detections`` is the paper's C(o, P).

    Source
    ------
    Wu et al. 2025, section 5.2 (1); `scipy.stats.chi2_contingency`; Cramér 1946.

    Examples
    --------
    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> images = pd.DataFrame({"prompt": [0, 0], "seed": 0, "indicator": ["f", "m"]})
    >>> table = object_table(images, [[10, 20], [20, 10]], indicators="fm", objects=["hat", "cup"])
    >>> result = chi_square_test(table)
    >>> round(result.statistic, 4), round(result.cramers_v, 4), result.smallest_expected
    (6.6667, 0.3333, 15.0)
    >>> result.warnings
    ('an object is detected 15.00 times on average in an image that has it: detections are not independent',)
    """
    values = table.values(of)
    observed = table.by_object(values)
    seen = observed.sum(axis=1) > 0
    varied = np.bincount(table.object, (values != values[:, :1]).any(axis=1), len(seen)) > 0
    identical = int((seen & ~varied).sum())
    present = int(table.presence.sum())
    repeated = float(values.sum() / present) if present else nan
    reason = NEVER if not seen.any() else ONE_OBJECT if seen.sum() < 2 else ""
    if not reason and (observed.sum(axis=0) == 0).any():
        reason = EMPTY_INDICATOR
    if reason:
        return ChiSquare(nan, nan, nan, 0, nan, 0, 0, repeated, reason, ())
    counts = observed[seen]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    dof = (len(counts) - 1) * (observed.shape[1] - 1)
    below = int((expected < 5).sum())
    warnings = []
    if repeated > 1:
        warnings.append(
            f"an object is detected {repeated:.2f} times on average in an image that has it: "
            "detections are not independent"
        )
    if below:
        warnings.append(f"{below} of {expected.size} expected counts are below 5")
    if identical:
        warnings.append(
            f"{identical} of {len(counts)} objects have equal counts at every prompt: not sampled independently"
        )
    p_value, v = float(special.chdtrc(dof, statistic)), _cramers_v(statistic, observed, len(counts))
    cells = float(expected.min()), below, int(expected.size)
    return ChiSquare(statistic, p_value, v, dof, *cells, repeated, "", tuple(warnings))
