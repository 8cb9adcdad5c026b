"""The table of disparities as the page shows it: pairs in order, a column for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pandas as pd

from analysis.metrics.registry import Metric
from analysis.report.wording import not_run
from analysis.study import Member


def ordered_pairs(people: Sequence[Member], reference: str) -> list[tuple[str, list[str]]]:
    """Group all pairs as the table shows them: with the reference, between the others, with control words."""
    grouped: dict[str, list[str]] = {
        "with the reference": [],
        "between the others": [],
        "with control words": [],
    }
    for first, second in combinations(people, 2):
        if first.control or second.control:
            group = "with control words"
        elif reference in (first.name, second.name):
            group = "with the reference"
        else:
            group = "between the others"
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
    columns = []
    values: dict[tuple[str, str], dict] = {}
    for metric in metrics:
        here = metric.rows_of(disparity)
        if len(here):
            columns.append(metric)
            values |= {(str(row["pair"]), metric.symbol): row for row in here.to_dict("records")}
    spaces: dict[str, int] = {}
    for metric in columns:
        spaces[metric.space] = spaces.get(metric.space, 0) + 1
    reasons = sorted({str(row["reason"]) for row in values.values() if row.get("reason")})
    groups = []
    for title, pairs in ordered_pairs(people, reference):
        rows = [
            {"pair": p.replace("-", ", "), "cells": [values.get((p, m.symbol)) for m in columns]}
            for p in pairs
        ]
        groups.append((title, rows))
    absent = not_run([metric for metric in metrics if metric not in columns], missing or {})
    return {
        "columns": columns,
        "spaces": list(spaces.items()),
        "groups": groups,
        "reasons": reasons,
        "not_run": absent,
    }
