"""Tables of what is compared: levels of a factor within a model, models with each other, and the ranks of models."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.audit.design import ALL, Design
from analysis.methods.audit.differences import (
    NUMBERS,
    Pair,
    compare_pair,
    compare_pairs,
    farthest,
    mean_distance,
    mean_square,
)
from analysis.methods.audit.shares import Cells
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.power import detectable_difference, items_for_difference
from analysis.stats.proportions import ranks

SIZES = ("detectable", "pictures_needed", "more_pictures")


def contrast_table(found: Cells, design: Design) -> pd.DataFrame:
    """Change of the share from a factor's first level to each other one, in each model: by profession, and over all.

    The column of the contrasted factor holds its other level, that of professions ``all`` in rows of their mean.
    """
    rows = []
    for model in design.levels["model"]:
        for place, factor in enumerate(design.others, 2):
            first, *levels = design.levels[factor]
            for level in levels:
                for rest in _rests(found, model, place, level):
                    pairs = _pairs(found, design, model, model, rest, place, first)
                    key = {"model": model, "factor": factor, "baseline": first}
                    rows += _rows(key, pairs, rest, design, paired=True)
    return _adjusted(rows, ["model", "factor", "baseline", *design.factors], design)


def model_table(found: Cells, design: Design) -> pd.DataFrame:
    """Difference of every two models on the same prompts, second less first: by profession, and over all.

    Distances are compared over all professions alone.
    """
    rows = []
    for first, second in combinations(design.levels["model"], 2):
        for rest in dict.fromkeys(key[2:] for key in found):
            pairs = _pairs(found, design, first, second, rest)
            own = _rows({"first": first, "second": second}, pairs, rest, design, paired=False)
            rows += [row if row[design.by] == ALL else row | {"p_distance": np.nan} for row in own]
    return _adjusted(rows, ["first", "second", *design.factors], design)


def rank_table(found: Cells, shares: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Distance of each model's shares from the reference over all professions, by setting.

    ``distance`` is the root mean square distance without what chance adds; ``p_value`` that every share is its
    reference (Fisher's combination of the cells' tests; where pictures share noises Bonferroni's).
    """
    keys, rows = list(dict.fromkeys((key[0], *key[2:]) for key in found)), []
    for model, *rest in keys:
        own = _of_model(found, design, model, tuple(rest))
        levels = dict(zip(("model", *design.others), (model, *rest)))
        chosen = np.logical_and.reduce([shares[name] == one for name, one in levels.items()])
        distance = low = high = np.nan
        if own:
            most = farthest([reference for _, reference in own])
            distance, low, high = mean_distance(*mean_square(own, design), design.level, most)
        share = float(np.mean([cell.share for cell, _ in own])) if own else np.nan
        p_value = _combined(shares["p_value"][chosen].dropna().to_numpy(float), design)
        rows.append(
            levels | {"share": share, "distance": distance, "low": low, "high": high, "p_value": p_value}
        )
    table = pd.DataFrame(rows)
    adjusted = adjust_p_values(table["p_value"].to_numpy(float), method=design.family)
    return table.assign(p_adjusted=adjusted, p_page=np.nan)


def _combined(p_values: NDArray[np.float64], design: Design) -> float:
    if not len(p_values):
        return np.nan
    if design.clustered:
        return float(min(1.0, len(p_values) * p_values.min()))
    return float(stats.combine_pvalues(p_values, method="fisher").pvalue)


def with_ranks(table: pd.DataFrame, models: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The table of `rank_table` with ranks, by setting; 1 is the nearest to the reference.

    ``rank_low`` to ``rank_high`` are the ranks that a model may have by all pairs that differ significantly on the
    page.
    """
    groups = table.groupby(list(design.others), sort=False) if design.others else [((), table)]
    frames = []
    for rest, own in groups:
        names = list(own["model"])
        better = np.zeros((len(names), len(names)), bool)
        for row in models.to_dict("records"):
            here = row[design.by] == ALL and tuple(row[name] for name in design.others) == tuple(rest)
            if here and row["p_distance_page"] <= design.alpha and {row["first"], row["second"]} <= {*names}:
                order = [names.index(row[side]) for side in ("first", "second")]
                nearer, farther = order if row["distance_difference"] > 0 else order[::-1]
                better[nearer, farther] = True
        low, high = ranks(better)
        rank = own["distance"].rank(method="min").astype("Int64")
        frames.append(own.assign(rank=rank, rank_low=low, rank_high=high).sort_values("rank", kind="stable"))
    return pd.concat(frames, ignore_index=True)


def _of_model(found: Cells, design: Design, model: str, rest: tuple[str, ...]) -> list[tuple[Any, float]]:
    keys = [(model, level, *rest) for level in design.levels[design.by]]
    return [(found[key], design.reference[key[1]]) for key in keys if key in found and found[key].decided]


def _rests(found: Cells, model: str, place: int, level: str) -> list[tuple[str, ...]]:
    """Levels of the other factors of a model's cells, where the contrasted factor has a level."""
    return [*dict.fromkeys(key[2:] for key in found if key[0] == model and key[place] == level)]


def _pairs(
    found: Cells,
    design: Design,
    first: str,
    second: str,
    rest: tuple[str, ...],
    place: int | None = None,
    baseline: str = "",
) -> dict[str, Pair]:
    """Cells that both have, by profession; with a place the first's have the baseline there."""
    pairs = {}
    for level in design.levels[design.by]:
        one, other = [first, level, *rest], (second, level, *rest)
        if place is not None:
            one[place] = baseline
        if tuple(one) in found and other in found:
            pairs[level] = Pair(found[tuple(one)], found[other], design.reference[level])
    return pairs


def _rows(
    key: dict[str, str], pairs: dict[str, Pair], rest: tuple[str, ...], design: Design, *, paired: bool
) -> list[dict]:
    levels = dict(zip(design.others, rest))
    rows = [
        key | {design.by: name, **levels} | compare_pair(pair, design, paired=paired)
        for name, pair in pairs.items()
    ]
    if len(pairs) > 1:
        over = compare_pairs([*pairs.values()], design, paired=paired)
        rows.append(key | {design.by: ALL, **levels} | over)
    return rows


def _adjusted(rows: list[dict], keys: list[str], design: Design) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=[*keys, *NUMBERS, "reason"])
    for name in ("p_value", "p_distance"):
        adjusted = adjust_p_values(table[name].to_numpy(float), method=design.family)
        prefix = name.removesuffix("_value")
        table[f"{prefix}_adjusted"], table[f"{prefix}_page"] = adjusted, np.nan
    alpha = design.alpha / max(1, int(table["p_value"].notna().sum()))
    sizes = [_sizes(row, design, alpha) for row in table.to_dict("records")]
    table[list(SIZES)] = np.array(sizes, float).reshape(-1, len(SIZES))
    return table.assign(reason=table.pop("reason"))


def _sizes(row: dict, design: Design, alpha: float) -> tuple[float, float, float]:
    """Smallest difference that is told, pictures a cell that the stated effect takes, and how many more these are."""
    n = row["decided_first"], row["decided_second"]
    if row[design.by] == ALL or not min(n):
        return np.nan, np.nan, np.nan
    start = row["share_first"]
    end = start + design.effect if start <= 0.5 else start - design.effect
    needed = items_for_difference(start, end, alpha=alpha) if 0 <= end <= 1 else np.nan
    return detectable_difference(start, *n, alpha=alpha), needed, max(0.0, needed - min(n))
