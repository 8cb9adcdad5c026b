"""Shares of an answer by model, profession and setting, against a reference; between professions; ranks of models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.methods.audit.design import Design
from analysis.methods.audit.differences import NO_PICTURE, distance
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.power import detectable_share, items_for_share
from analysis.stats.proportions import newcombe_interval, wilson_interval

ONE_LEVEL = "fewer than two with decided pictures"
CONSTANT = "the same in every picture"


def share_table(cells: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The share of every cell with its interval and its difference from the reference: a row for each cell.

    ``bound_low`` and ``bound_high`` count all undecided pictures as not the answer, or as the answer; ``p_value`` is
    exact binomial (Fisher's where the reference is of so many people); ``p_worst`` has the undecided decided against
    it. ``p_adjusted`` is over the shares.
    """
    n, world = cells["decided"].to_numpy(float), cells["reference_n"].to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = cells["count"] / n
        low, high = wilson_interval(share, n, design.level)
        newcombe = newcombe_interval(share, n, cells["reference"], world, design.level)
    ends = [np.where(world > 0, both, end - cells["reference"]) for both, end in zip(newcombe, (low, high))]
    tests = np.array([_tests(row) for row in cells.to_dict("records")]).T
    alpha = design.alpha / max(1, int((~np.isnan(tests[0])).sum()))
    sizes = zip(cells["decided"], cells["reference"])
    needed = np.array([_needed(one, design.effect, alpha) for one in cells["reference"]])
    return cells.drop(columns=["reference", "reference_n"]).assign(
        share=share,
        low=low,
        high=high,
        bound_low=cells["count"] / cells["pictures"],
        bound_high=(cells["count"] + cells["pictures"] - n) / cells["pictures"],
        reference=cells["reference"],
        difference=share - cells["reference"],
        difference_low=ends[0],
        difference_high=ends[1],
        p_value=tests[0],
        p_worst=adjust_p_values(tests[1], method="hommel"),
        p_adjusted=adjust_p_values(tests[0], method="hommel"),
        detectable=[_detectable(*one, alpha) for one in sizes],
        pictures_needed=needed,
        more_pictures=np.maximum(0, needed - n),
        reason=np.where(n > 0, "", NO_PICTURE),
    )


def _tests(cell: Mapping[str, Any]) -> tuple[float, float]:
    """The p-value of a cell, and the largest that any decision of its undecided pictures gives."""
    p_value = worst = _exact(cell["count"], cell["decided"], cell["reference"], cell["reference_n"])
    if undecided := cell["pictures"] - cell["decided"]:
        counts = range(cell["count"], cell["count"] + undecided + 1)
        worst = max(_exact(k, cell["pictures"], cell["reference"], cell["reference_n"]) for k in counts)
    return p_value, worst


@lru_cache(maxsize=4096)
def _exact(count: int, n: int, reference: float, n_world: int) -> float:
    if not n:
        return np.nan
    if n_world:
        world = round(reference * n_world)
        return float(stats.fisher_exact([[count, n - count], [world, n_world - world]]).pvalue)
    return float(stats.binomtest(count, n, reference).pvalue)


@lru_cache(maxsize=1024)
def _detectable(n: int, reference: float, alpha: float) -> float:
    return detectable_share(n, reference, alpha=alpha) if n else np.nan


@lru_cache(maxsize=1024)
def _needed(reference: float, effect: float, alpha: float) -> float:
    share = reference + effect if reference <= 0.5 else reference - effect
    return items_for_share(share, reference, alpha=alpha) if 0 <= share <= 1 else np.nan


def between_table(cells: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Whether professions differ, for each model and setting.

    ``explained`` is the share of the variance of answers that lies between professions, ``floor`` its mean where
    pictures change places between professions, as they do at random for ``p_value``.
    """
    keys, rows = ["model", *design.others], []
    for key, group in cells.groupby(keys, sort=False):
        known = group[group["decided"] > 0]
        count, sizes = known["count"].to_numpy(), known["decided"].to_numpy()
        n, hits = sizes.sum(), count.sum()
        explained = floor = p_value = np.nan
        reason = ONE_LEVEL if len(known) < 2 else "" if 0 < hits < n else CONSTANT
        if not reason:
            rng = np.random.default_rng(design.seed)
            permuted = rng.multivariate_hypergeometric(sizes, hits, size=design.permutations)
            between = (np.vstack([count, permuted]) ** 2 / sizes).sum(axis=1) - hits**2 / n
            explained, floor = between[0] / (hits * (n - hits) / n), (len(known) - 1) / (n - 1)
            p_value = (1 + (between[1:] >= between[0] - 1e-9).sum()) / (1 + design.permutations)
        rows.append((*key, len(known), n, explained, floor, p_value, reason))
    columns = [*keys, design.plural, "pictures", "explained", "floor", "p_value", "reason"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_adjusted=np.nan, reason=table.pop("reason"))


def rank_table(shares: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Distance of each model's shares from the reference over all professions, by setting.

    ``distance`` is the root mean square distance without what chance adds; ``p_value`` that every share is its
    reference (Fisher's combination of the cells' tests).
    """
    keys, rows = ["model", *design.others], []
    for key, group in shares.groupby(keys, sort=False):
        known = group[group["decided"] > 0]
        ends, *_ = distance(known["count"], known["decided"], known["reference"], design)
        p_values = known["p_value"].to_numpy(float)
        p_value = float(stats.combine_pvalues(p_values).pvalue) if len(known) else np.nan
        rows.append((*key, known["share"].mean(), *ends, p_value))
    table = pd.DataFrame(rows, columns=[*keys, "share", "distance", "low", "high", "p_value"])
    return table.assign(p_adjusted=np.nan)
