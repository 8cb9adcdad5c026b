"""Differences of shares, and of their distances from the reference, between models and between levels of a factor."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from analysis.methods.audit.design import ALL, Design
from analysis.stats.proportions import (
    newcombe_interval,
    normal_p,
    square_and_add,
    squared_distance,
    stratified_exact_test,
)

NO_PICTURE = "no decided picture"
SIDES = ("first", "second")
NUMBERS = ("value_first", "value_second", "difference", "low", "high", "p_value")


def difference_table(cells: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The change from the first level of a factor to each other, in each model, and between models on the same prompts.

    A row for each profession, one of their mean (``all``), and one of the distance of all from their references;
    ``question`` says which: ``contrast`` and ``models`` are of shares, ``distance`` and ``ranks`` of distances.
    """
    keys = ["model", *design.factors]
    compared = [
        (name, design.levels[name][0], one) for name in design.others for one in design.levels[name][1:]
    ]
    compared += [("model", *pair) for pair in combinations(design.levels["model"], 2)]
    rows = []
    for name, *sides in compared:
        same = [one for one in keys if one != name]
        first, second = (cells[cells[name] == one] for one in sides)
        pairs = first.merge(second[[*same, "count", "decided"]], on=same, suffixes=("_first", "_second"))
        of_shares, of_distances = ("models", "ranks") if name == "model" else ("contrast", "distance")
        same.remove(design.by)
        for _, group in pairs.groupby(same or np.zeros(len(pairs)), sort=False):
            place = {"compared": name, **dict(zip(SIDES, sides)), name: "", **group.iloc[0][same].to_dict()}
            parts = [*group.groupby(design.by, sort=False), *([(ALL, group)] if len(group) > 1 else [])]
            for level, part in parts:
                rows.append({"question": of_shares, **place, design.by: level} | _compare(part, design))
            if len(group) > 1:
                row = {"question": of_distances, **place, design.by: ALL}
                rows.append(row | _compare(group, design, distances=True))
    columns = ["question", "compared", *SIDES, *keys, "decided_first", "decided_second", *NUMBERS]
    table = pd.DataFrame(rows, columns=[*columns, "reason"])
    return table.assign(p_adjusted=np.nan, overshoots=False, reason=table.pop("reason"))


def _compare(pairs: pd.DataFrame, design: Design, *, distances: bool = False) -> dict[str, Any]:
    """The numbers of a row, from the pairs of cells that both have decided pictures."""
    known = pairs[(pairs["decided_first"] > 0) & (pairs["decided_second"] > 0)]
    counted = known if len(known) else pairs
    row = {f"decided_{side}": counted[f"decided_{side}"].sum() for side in SIDES}
    if known.empty:
        return row | {"reason": NO_PICTURE}
    row["reason"] = "" if len(known) == len(pairs) else f"over {len(known)} of {len(pairs)}"
    return row | dict(zip(NUMBERS, (_of_distances if distances else _of_shares)(known, design)))


def _of_shares(pairs: pd.DataFrame, design: Design) -> tuple[float, ...]:
    """The mean difference of pairs of cells, second less first.

    The interval joins Newcombe's of the pairs by the square-and-add rule, and the test is exact, stratified by pair: of
    one pair Fisher's.
    """
    counts, sizes = ([pairs[f"{what}_{side}"].to_numpy() for side in SIDES] for what in ("count", "decided"))
    first, second = (count / n for count, n in zip(counts, sizes))
    ends = newcombe_interval(second, sizes[1], first, sizes[0], design.level)
    down, up = (np.sqrt(((second - first - end) ** 2).sum()) / len(pairs) for end in ends)
    value = (second - first).mean()
    p_value = stratified_exact_test(counts[1], sizes[1], counts[0], sizes[0])
    return first.mean(), second.mean(), value, value - down, value + up, p_value


def _of_distances(pairs: pd.DataFrame, design: Design) -> tuple[float, ...]:
    """The difference of the distances of two lists of cells from their references, second less first.

    The test is of the mean squares, without what chance adds.
    """
    (first, square_first, variance_first), (second, square_second, variance_second) = (
        distance(pairs[f"count_{side}"], pairs[f"decided_{side}"], pairs["reference"], design)
        for side in SIDES
    )
    low, high = square_and_add(second[0], second[1:], first[0], first[1:])
    p_value = normal_p(square_second - square_first, variance_first + variance_second)
    return first[0], second[0], second[0] - first[0], float(low), float(high), float(p_value)


def distance(
    count: ArrayLike, n: ArrayLike, reference: ArrayLike, design: Design
) -> tuple[tuple[float, ...], float, float]:
    """How far shares lie from their references, with the ends of its interval; its square, and the square's variance.

    Root mean square (`analysis.stats.proportions.squared_distance`).
    """
    values, variances = squared_distance(count, n, reference)
    known = ~np.isnan(values)
    if not known.any():
        return (np.nan,) * 3, np.nan, np.nan
    square, variance = float(values[known].mean()), float(variances[known].sum() / known.sum() ** 2)
    half = stats.norm.ppf((1 + design.level) / 2) * np.sqrt(variance)
    references = np.asarray(reference, float)
    most = np.mean(np.maximum(references, 1 - references) ** 2)
    ends = np.sqrt(np.clip([square, square - half, square + half], 0.0, most))
    return tuple(map(float, ends)), square, variance
