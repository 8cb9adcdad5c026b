"""Shares of an answer by model, profession and setting, against a reference, and between professions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import stats

from analysis.methods.audit import clusters
from analysis.methods.audit.design import AuditCell, Design
from analysis.stats.group_swaps import group_swaps
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.power import (
    detectable_difference,
    detectable_share,
    items_for_difference,
    items_for_share,
)
from analysis.stats.proportions import newcombe_interval, wilson_interval

NO_PICTURE = "no decided picture"
ONE_NOISE = "pictures of one noise"

Cells = Mapping[tuple[str, ...], AuditCell]


def cell_size(cell: AuditCell, design: Design) -> float:
    """The number of independent pictures that a cell is worth."""
    return clusters.effective_size(cell) if design.clustered else cell.decided


def share_table(found: Cells, design: Design) -> pd.DataFrame:
    """The share of every cell with its interval and its difference from the reference: a row for each cell.

    ``bound_low`` and ``bound_high`` count all undecided pictures as not the answer, or as the answer; ``p_value`` is
    exact binomial (Fisher's where the reference is of so many people); ``p_worst`` has the undecided decided against
    it.
    """
    table = pd.DataFrame([_share_row(key, cell, design) for key, cell in found.items()])
    table["p_adjusted"] = adjust_p_values(table["p_value"], method=design.family)
    table["p_worst"] = adjust_p_values(table["p_worst"], method=design.family)
    table["p_page"] = np.nan
    alpha = design.alpha / max(1, int(table["p_value"].notna().sum()))
    world = [
        (reference, design.reference_n.get(key[1], 0)) for key, reference in zip(found, table["reference"])
    ]
    sizes = [int(cell_size(cell, design)) for cell in found.values()]
    table["detectable"] = [_detectable(size, *one, alpha) for size, one in zip(sizes, world)]
    table["pictures_needed"] = [_needed(*one, design.effect, alpha) for one in world]
    table["more_pictures"] = np.maximum(0, table["pictures_needed"] - table["decided"])
    return table.assign(reason=table.pop("reason"))


def _share_row(key: tuple[str, ...], cell: AuditCell, design: Design) -> dict:
    level = key[1]
    reference, size = design.reference[level], cell_size(cell, design)
    low, high = (
        float(end) for end in wilson_interval(np.float64(cell.share), np.float64(size), design.level)
    )
    n_world = design.reference_n.get(level, 0)
    ends = low - reference, high - reference
    if n_world and size > 0:
        ends = tuple(
            float(end) for end in newcombe_interval(cell.share, size, reference, n_world, design.level)
        )
    undecided = cell.pictures - cell.decided
    if design.clustered:
        p_value = worst = clusters.share_p_value(cell, reference)
    else:  # the worst: the largest p-value that any decision of the undecided pictures gives
        p_value = worst = _exact(cell.count, cell.decided, reference, n_world)
        if undecided:
            decisions = range(undecided + 1)
            worst = max(_exact(cell.count + k, cell.pictures, reference, n_world) for k in decisions)
    return {
        **dict(zip(("model", *design.factors), key)),
        "pictures": cell.pictures,
        "decided": cell.decided,
        "count": cell.count,
        "share": cell.share,
        "low": low,
        "high": high,
        "bound_low": cell.count / cell.pictures,
        "bound_high": (cell.count + undecided) / cell.pictures,
        "reference": reference,
        "difference": cell.share - reference,
        "difference_low": ends[0],
        "difference_high": ends[1],
        "p_value": p_value,
        "p_worst": worst,
        "reason": "" if size > 0 else ONE_NOISE if cell.decided else NO_PICTURE,
    }


@lru_cache(maxsize=4096)
def _exact(count: int, n: int, reference: float, n_world: int) -> float:
    if not n:
        return np.nan
    if n_world:
        world = round(reference * n_world)
        return float(stats.fisher_exact([[count, n - count], [world, n_world - world]]).pvalue)
    return float(stats.binomtest(count, n, reference).pvalue)


@lru_cache(maxsize=1024)
def _detectable(size: int, reference: float, n_world: int, alpha: float) -> float:
    if size < 1:
        return np.nan
    if n_world:
        return detectable_difference(reference, size, n_world, alpha=alpha)
    return detectable_share(size, reference, alpha=alpha)


@lru_cache(maxsize=1024)
def _needed(reference: float, n_world: int, effect: float, alpha: float) -> float:
    share = reference + effect if reference <= 0.5 else reference - effect
    if not 0 <= share <= 1:
        return np.nan
    number = items_for_difference if n_world else items_for_share
    return number(share, reference, alpha=alpha)


def between_table(found: Cells, design: Design) -> pd.DataFrame:
    """Whether professions differ, for each model and setting.

    ``explained`` is the share of the variance of answers that lies between professions, ``floor`` its mean where
    pictures (or whole noises) change places between professions.
    """
    keys = list(dict.fromkeys((key[0], *key[2:]) for key in found))
    levels = design.levels[design.by]
    width = max(len(cell.of) for cell in found.values())
    values = np.full((len(levels), width, len(keys)), np.nan)
    for (model, level, *rest), cell in found.items():
        known = np.flatnonzero(cell.of)
        values[levels.index(level), known, keys.index((model, *rest))] = cell.hits[known] / cell.of[known]
    test = group_swaps(values, draws=design.permutations - 1, seed=design.seed)
    table = pd.DataFrame(keys, columns=["model", *design.others])
    return table.assign(
        **{
            design.plural: test.groups,
            "units": test.units,
            "explained": test.explained,
            "floor": test.floor,
        },
        p_value=test.p_value,
        p_adjusted=test.p_adjusted,
        p_page=np.nan,
        reason=test.reason,
    )
