"""All statistics of an object table in two tidy tables: one row an object and pair of words, one row a comparison.

What each number means stands where it is made: `analysis.stats.object_tests`, `analysis.stats.object_tests`,
`analysis.stats.table_tests`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import bias_scores, paired_presence_test, presence_differences
from analysis.stats.odds_ratios import common_odds_ratios
from analysis.stats.table_tests import chi_square_test, label_swap_test
from analysis.tables.interval_columns import interval_columns, with_ends

OBJECT_COLUMNS = (
    "first",
    "second",
    "object",
    "images_first",
    "images_second",
    "detections_first",
    "detections_second",
    *with_ends("difference"),
    *with_ends("bias_score"),
    "bias_score_detections",
    *with_ends("odds_ratio"),
    "p_value",
    "p_exact",
    "p_bh",
    "p_by",
    "n_prompts",
    "n_differ",
    "n_images",
    "reason",
)
TABLE_COLUMNS = (
    "indicators",
    "of",
    "statistic",
    "floor",
    "p_value",
    "cramers_v",
    "cramers_v_floor",
    "permutations",
    "exact",
    "paper_p_value",
    "dof",
    "smallest_expected",
    "expected_below_5",
    "cells",
    "detections_per_image",
    "n_prompts",
    "n_images",
    "reason",
    "warnings",
)


def object_statistics(
    table: ObjectTable,
    pairs: Sequence[Sequence[str]],
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return the statistics of every object for every pair of words.

    Of pairs (first, second) a positive difference or a bias score above 1/2 leans to the second. Intervals are Wilson's
    for bias scores and the adjusted one for differences, which hold for rare objects. ``p_value`` is the exact paired
    test's; ``p_bh`` and ``p_by`` adjust it over all objects of the pair. NaN where undefined; ``reason`` says why.
    """
    tables = []
    for first, second in pairs:
        place = [table.column(name) for name in (first, second)]
        images, detections = table.totals()[:, place], table.totals("detections")[:, place]
        score = bias_scores(table, first, second, level=level)
        gap = presence_differences(table, first, second, level=level)
        test = paired_presence_test(table, first, second)
        odds = common_odds_ratios(table, first, second, level=level)
        columns = {
            "first": first,
            "second": second,
            "object": table.objects,
            "images_first": images[:, 0],
            "images_second": images[:, 1],
            "detections_first": detections[:, 0],
            "detections_second": detections[:, 1],
            **interval_columns("difference", gap.value, gap.low, gap.high),
            **interval_columns("bias_score", score.value, score.low, score.high),
            "bias_score_detections": bias_scores(table, first, second, of="detections").value,
            **interval_columns("odds_ratio", odds.odds_ratio, odds.low, odds.high),
            "p_value": test.p_value,
            "p_exact": test.exact,
            "p_bh": adjust_p_values(test.p_value),
            "p_by": adjust_p_values(test.p_value, method="by"),
            "n_prompts": len(table.prompts),
            "n_differ": test.informative,
            "n_images": table.n_images,
            "reason": [
                _join(*reasons) for reasons in zip(test.reason, score.reason, gap.reason, odds.reason)
            ],
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(OBJECT_COLUMNS))


def table_statistics(
    table: ObjectTable,
    comparisons: Sequence[Sequence[str]],
    *,
    permutations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the tests of whole tables: the label-swap test with the paper's chi-square beside it.

    Two rows a comparison, of presence and of detections, with `TABLE_COLUMNS`; ``p_value`` is that of the label swaps,
    ``paper_p_value`` that of chi-square, which holds only where ``warnings`` is empty and the images are independent.
    """
    rows = []
    for names in comparisons:
        chosen = table.select(list(names))
        for of in ("presence", "detections"):
            swaps = label_swap_test(chosen, of=of, permutations=permutations, seed=seed)
            paper = chi_square_test(chosen, of=of)
            row = {
                "indicators": "-".join(chosen.indicators),
                "of": of,
                "statistic": swaps.statistic,
                "floor": swaps.floor,
                "p_value": swaps.p_value,
                "cramers_v": swaps.cramers_v,
                "cramers_v_floor": swaps.cramers_v_floor,
                "permutations": swaps.permutations,
                "exact": swaps.exact,
                "paper_p_value": paper.p_value,
                "dof": paper.dof,
                "smallest_expected": paper.smallest_expected,
                "expected_below_5": paper.expected_below_5,
                "cells": paper.cells,
                "detections_per_image": paper.detections_per_image,
                "n_prompts": len(chosen.prompts),
                "n_images": chosen.n_images,
                "reason": _join(swaps.reason, paper.reason),
                "warnings": "; ".join(paper.warnings),
            }
            rows.append(row)
    return pd.DataFrame(rows, columns=list(TABLE_COLUMNS))


def _join(*reasons: str) -> str:
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))
