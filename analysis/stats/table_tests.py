"""Tests of whole tables of objects between indicators: label swaps of triplets, and the papers' chi-square.

The chi-square test of pooled detections takes every detection as an independent draw. Ten detections of one thing in
one image are not ten draws (then it rejects far too often), and members of a triplet share prompt and noise (then it
rejects far too seldom). The same statistic is therefore held against its distribution under swaps of the indicators
within prompts, all seeds and objects of a prompt together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations as arrangements
from math import factorial, nan

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import NEVER, NO_DIFFERENCE
from analysis.stats.permutation import NO_IMAGES, reached_share
from analysis.stats.resampling import BLOCK, ONE_PROMPT, SWAP_STREAM

ONE_OBJECT = "fewer than two objects detected"
LISTED = 5  # indicators: the orders of more are drawn one by one, for 10! are too many to list
EMPTY_INDICATOR = "an indicator without any detection"


def label_swap_test(
    table: ObjectTable, *, of: str = "presence", permutations: int = 2000, seed: int = 0
) -> pd.Series:
    r"""Test whether the indicators of a prompt could have changed places, for all objects together.

    By Pearson's chi-square of the objects × indicators table: ``p_value``, NaN for the ``reason``, else empty;
    ``cramers_v`` is its effect size, 0 to 1, which cannot be 0 by chance alone, and ``cramers_v_floor`` what the swaps
    give.

    Under the null each prompt's indicators are in random order (Pitman 1937). All k!^n orders are counted where that is
    at most `permutations`, else so many are drawn. Of presence or detections of two or more indicators;
    `ObjectTable.select` takes a pair out of a triplet. ValueError if `permutations` is below 1.

    Hat and cup at two prompts, exchanged between the words: half of the four orders are as extreme.

    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(2) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> counts = [[1, 0], [0, 1]] * 2
    >>> table = object_table(images, counts, indicators="fm", objects=["hat", "cup"])
    >>> result = label_swap_test(table)
    >>> result.cramers_v, result.cramers_v_floor, result.p_value
    (1.0, 0.5, 0.5)
    """
    if permutations < 1:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    values, k, n_prompts = getattr(table, of), len(table.indicators), len(table.prompts)
    observed = table.by_object(values)
    varied = (values != values[:, :1]).any(axis=1)
    exact = n_prompts < 63 and factorial(k) ** n_prompts <= permutations
    total = factorial(k) ** n_prompts if exact else permutations
    (statistic,), shown = _pearson(observed[:, :, None])
    statistic, reason = float(statistic), _table_reason(table, observed, bool(varied.any()))
    v = _cramers_v(statistic, observed, shown)
    if n_prompts < 2 or not varied.any():
        return pd.Series({"p_value": nan, "cramers_v": v, "cramers_v_floor": nan, "reason": reason})
    swapped = _swapped_totals(table, values, total, exact, seed)
    null = np.concatenate([_pearson(block)[0] for block in swapped])
    p_value = nan if reason else float(reached_share(null, statistic, exact))
    floor = _cramers_v(np.sqrt(null).mean() ** 2, observed, shown)
    return pd.Series({"p_value": p_value, "cramers_v": v, "cramers_v_floor": floor, "reason": reason})


def _swapped_totals(
    table: ObjectTable, values: NDArray[np.int64], total: int, exact: bool, seed: int
) -> Iterator[NDArray[np.float64]]:
    """Totals by object and indicator under swaps, in blocks of shape (n_objects, k, swaps)."""
    k, shape = values.shape[1], (len(table.objects), len(table.prompts))
    totals = table.by_object(values).astype(float)
    # a goal has one source, so its images are the last source's, and by a swap another's instead
    surplus = [
        sparse.csr_array(((column - values[:, -1]).astype(float), (table.object, table.prompt)), shape)
        for column in values.T[:-1]
    ]
    for cells in surplus:
        cells.eliminate_zeros()
    for listed, number in _orders(k, shape[1], total, exact, seed):
        swapped = [
            totals[:, -1:]
            + sum(
                cells @ (listed[:, source] == goal).astype(float).take(number)
                for source, cells in enumerate(surplus)
            )
            for goal in range(k - 1)
        ]
        yield np.stack([*swapped, totals.sum(axis=1, keepdims=True) - sum(swapped)], axis=1)


def _orders(
    k: int, n_prompts: int, total: int, exact: bool, seed: int
) -> Iterator[tuple[NDArray[np.int8], NDArray[np.intp]]]:
    """Orders, shape (n_orders, k), and which of them each prompt has, shape (n_prompts, swaps), so many at a time.

    An order is the indicator to which each of the indicators goes.
    """
    rng = np.random.default_rng([seed, SWAP_STREAM])
    listed = np.array(list(arrangements(range(k))), np.int8) if exact or k <= LISTED else None
    for start in range(0, total, BLOCK):
        width = min(BLOCK, total - start)
        if listed is None:
            unmoved = np.broadcast_to(np.arange(k, dtype=np.int8), (n_prompts, width, k))
            orders = rng.permuted(unmoved, axis=2).reshape(-1, k)
            yield orders, np.arange(len(orders)).reshape(n_prompts, width)
        elif exact:
            number = np.arange(start, start + width)[None, :]
            yield listed, number // len(listed) ** np.arange(n_prompts)[:, None] % len(listed)
        else:
            yield listed, rng.integers(0, len(listed), (n_prompts, width), dtype=np.int8).astype(np.intp)


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


def chi_square_test(table: ObjectTable, *, of: str = "detections") -> pd.Series:
    """Return Pearson's chi-square of pooled counts, the papers' own test, with what speaks against its p-value.

    ``statistic``, ``p_value``, ``cramers_v`` and ``dof``, NaN for the ``reason``. The test wants expected counts of at
    least 5: ``smallest_expected``, and how many of the ``cells`` are ``expected_below_5``; ``detections_per_image`` are
    the mean detections of an object in an image that has it, 1 where none is repeated; ``warnings`` say why the p-value
    does not hold.

    Wu et al. 2025, section 5.2 (1), of detections, their C(o, P); `scipy.stats.chi2_contingency`; Cramér 1946.
    """
    values = getattr(table, of)
    observed = table.by_object(values)
    seen = observed.sum(axis=1) > 0
    varied = np.bincount(table.object, (values != values[:, :1]).any(axis=1), len(seen)) > 0
    identical = int((seen & ~varied).sum())
    present = int(table.presence.sum())
    repeated = float(values.sum() / present) if present else nan
    reason = NEVER if not seen.any() else ONE_OBJECT if seen.sum() < 2 else ""
    if not reason and (observed.sum(axis=0) == 0).any():
        reason = EMPTY_INDICATOR
    result = {"statistic": nan, "p_value": nan, "cramers_v": nan, "dof": 0, "smallest_expected": nan}
    result |= {"expected_below_5": 0, "cells": 0, "detections_per_image": repeated}
    result |= {"reason": reason, "warnings": ()}
    if reason:
        return pd.Series(result)
    statistic, p_value, dof, expected = stats.chi2_contingency(observed[seen], correction=False)
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
            f"{identical} of {len(expected)} objects have equal counts at every prompt: not sampled independently"
        )
    result |= {"statistic": float(statistic), "p_value": float(p_value), "dof": dof, "cells": expected.size}
    result |= {"cramers_v": _cramers_v(statistic, observed, len(expected)), "expected_below_5": below}
    return pd.Series(result | {"smallest_expected": float(expected.min()), "warnings": tuple(warnings)})
