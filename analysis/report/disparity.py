"""The table of disparities as the page shows it: pairs in order, a column for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pandas as pd

from analysis.metrics.registry import Metric
from analysis.study import Member


def ordered_pairs(people: Sequence[Member], reference: str) -> list[tuple[str, list[str]]]:
    """Group all pairs as the table shows them: with the reference, between the others, with control words."""
    grouped: dict[str, list[str]] = {
        name: [] for name in ("with the reference", "between the others", "with control words")
    }
    for first, second in combinations(people, 2):
        if first.control or second.control:
            group = "with control words"
        else:
            group = "with the reference" if reference in (first.name, second.name) else "between the others"
        grouped[group].append(f"{first.name}-{second.name}")
    return [(title, pairs) for title, pairs in grouped.items() if pairs]


def disparity_table(
    disparity: pd.DataFrame,
    metrics: list[Metric],
    people: Sequence[Member],
    reference: str,
    missing: Mapping[str, str] | None = None,
) -> dict:
    """Lay out ``tables/disparity`` as in the paper: one row per pair, one column per metric, a column group a space.

    In ``groups`` every row has a ``pair`` and its ``cells``, each a row of the table or None; ``reasons`` say why a
    value or an interval is undefined, ``not_run`` why a measure has no column (`missing` is ``not_observed`` of the
    run's record).
    """
    rows = {metric: metric.rows_of(disparity).to_dict("records") for metric in metrics}
    columns = [metric for metric in metrics if rows[metric]]
    values = {(str(row["pair"]), metric): row for metric in columns for row in rows[metric]}
    groups = [
        (
            title,
            [
                {"pair": pair.replace("-", ", "), "cells": [values.get((pair, metric)) for metric in columns]}
                for pair in pairs
            ],
        )
        for title, pairs in ordered_pairs(people, reference)
    ]
    spaces = [metric.space for metric in columns]
    return {
        "columns": columns,
        "spaces": [(space, spaces.count(space)) for space in dict.fromkeys(spaces)],
        "groups": groups,
        "reasons": sorted({str(row["reason"]) for row in values.values() if row.get("reason")}),
        "not_run": not_run([metric for metric in metrics if not rows[metric]], missing or {}),
    }


def not_run(absent: Sequence[Metric], missing: Mapping[str, str]) -> list[str]:
    """Return why measures have no numbers, those of one reason together.

    `missing` is ``not_observed`` of a run's record.
    """
    reasons: dict[str, list[str]] = {}
    for metric in absent:
        if why := missing.get(metric.metric):
            reasons.setdefault(why.replace("`", ""), []).append(metric.symbol)
    return [f"{', '.join(symbols)} not run: {why}" for why, symbols in reasons.items()]
