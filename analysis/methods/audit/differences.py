"""Differences of shares, and of their distances from the reference, between models and between levels of a factor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from analysis.methods.audit.design import ALL, Design
from analysis.stats.multiplicity import adjust_p_values
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


class Distance(NamedTuple):
    """A mean squared distance from the reference, its variance, and the root with the ends of its interval."""

    square: float
    variance: float
    ends: tuple[float, float, float]


def difference_table(cells: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The change from the first level of a factor to each other, in each model, and between models on the same prompts.

    A row for each profession, one of their mean (``all``), and one of the distance of all from their references;
    ``question`` says which: ``contrast`` and ``models`` are of shares, ``distance`` and ``ranks`` of distances.
    ``p_adjusted`` is over the rows of a question.
    """
    keys = ["question", "compared", *SIDES, "model", *design.factors]
    rows = [row for name, *sides in _compared(design) for row in _rows(cells, name, sides, design)]
    table = pd.DataFrame(rows, columns=[*keys, "decided_first", "decided_second", *NUMBERS, "reason"])
    table["p_adjusted"] = np.nan
    for _, group in table.groupby("question"):
        adjusted = adjust_p_values(group["p_value"].to_numpy(float), method="hommel")
        table.loc[group.index, "p_adjusted"] = adjusted
    return table.assign(overshoots=False, reason=table.pop("reason"))


def _compared(design: Design) -> Iterator[tuple[str, str, str]]:
    """Yield the factors with their first and each other level, then every two models."""
    for name in design.others:
        first, *levels = design.levels[name]
        yield from ((name, first, level) for level in levels)
    for pair in combinations(design.levels["model"], 2):
        yield "model", *pair


def _rows(cells: pd.DataFrame, name: str, sides: list[str], design: Design) -> Iterator[dict[str, Any]]:
    """Yield the differences of two levels of a factor or two models, within the same levels of the others."""
    keys = [one for one in ("model", *design.factors) if one != name]
    first, second = (cells[cells[name] == one] for one in sides)
    both = first.merge(second[[*keys, "count", "decided"]], on=keys, suffixes=("_first", "_second"))
    place = {"compared": name, **dict(zip(SIDES, sides)), name: ""}
    shares, distances = ("models", "ranks") if name == "model" else ("contrast", "distance")
    rest = [one for one in keys if one != design.by]
    for levels, group in both.groupby(rest, sort=False) if rest else [((), both)]:
        place |= dict(zip(rest, levels))
        for row in range(len(group)):
            pair = group.iloc[[row]]
            yield {"question": shares, **place, design.by: pair[design.by].iloc[0]} | compare_shares(
                pair, design
            )
        if len(group) > 1:
            yield {"question": shares, **place, design.by: ALL} | compare_shares(group, design)
            yield {"question": distances, **place, design.by: ALL} | compare_distances(group, design)


def _known(pairs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The pairs whose cells both have decided pictures, and what a row says where there is none."""
    known = pairs[(pairs["decided_first"] > 0) & (pairs["decided_second"] > 0)]
    counted = known if len(known) else pairs
    some = "" if len(known) == len(pairs) else f"over {len(known)} of {len(pairs)}"
    row = {f"decided_{side}": counted[f"decided_{side}"].sum() for side in SIDES}
    return known, row | dict.fromkeys(NUMBERS, np.nan) | {"reason": some if len(known) else NO_PICTURE}


def compare_shares(pairs: pd.DataFrame, design: Design) -> dict[str, Any]:
    """The mean difference of pairs of cells, second less first.

    The interval joins Newcombe's of the pairs by the square-and-add rule, and the test is exact, stratified by pair: of
    one pair Fisher's.
    """
    known, row = _known(pairs)
    if known.empty:
        return row
    counts, sizes = ([known[f"{what}_{side}"].to_numpy() for side in SIDES] for what in ("count", "decided"))
    shares = [count / n for count, n in zip(counts, sizes)]
    difference = shares[1] - shares[0]
    ends = newcombe_interval(shares[1], sizes[1], shares[0], sizes[0], design.level)
    down, up = (np.sqrt(((difference - end) ** 2).sum()) / len(known) for end in ends)
    value = float(difference.mean())
    p_value = stratified_exact_test(counts[1], sizes[1], counts[0], sizes[0])
    numbers = (*(float(one.mean()) for one in shares), value, value - down, value + up, p_value)
    return row | dict(zip(NUMBERS, numbers))


def compare_distances(pairs: pd.DataFrame, design: Design) -> dict[str, Any]:
    """The difference of the distances of two lists of cells from their references, second less first.

    The test is of the mean squares, without what chance adds.
    """
    known, row = _known(pairs)
    first, second = (
        distance(known[f"count_{side}"], known[f"decided_{side}"], known["reference"], design)
        for side in SIDES
    )
    low, high = square_and_add(second.ends[0], second.ends[1:], first.ends[0], first.ends[1:])
    p_value = normal_p(second.square - first.square, first.variance + second.variance)
    numbers = first.ends[0], second.ends[0], second.ends[0] - first.ends[0], low, high, p_value
    return row | dict(zip(NUMBERS, map(float, numbers)))


def distance(count: ArrayLike, n: ArrayLike, reference: ArrayLike, design: Design) -> Distance:
    """How far shares lie from their references: root mean square (`analysis.stats.proportions.squared_distance`)."""
    values, variances = squared_distance(count, n, reference)
    known = ~np.isnan(values)
    if not known.any():
        return Distance(np.nan, np.nan, (np.nan,) * 3)
    square, variance = float(values[known].mean()), float(variances[known].sum() / known.sum() ** 2)
    half = stats.norm.ppf((1 + design.level) / 2) * np.sqrt(variance)
    references = np.asarray(reference, float)
    most = np.mean(np.maximum(references, 1 - references) ** 2)
    ends = np.sqrt(np.clip([square, square - half, square + half], 0.0, most))
    return Distance(square, variance, tuple(map(float, ends)))
