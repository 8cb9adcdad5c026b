"""Tests of an object table: one row an object and pair of words, and one row a comparison of whole tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import presence_differences
from analysis.stats.table_tests import label_swap_test

OBJECT_COLUMNS = (
    *("first", "second", "object", "images_first", "images_second"),
    *(
        "difference",
        "difference_low",
        "difference_high",
        "p_value",
        "p_objects",
        "n_prompts",
        "n_images",
        "reason",
    ),
)
TABLE_COLUMNS = (
    *("indicators", "of", "cramers_v", "cramers_v_floor", "p_value", "n_prompts", "n_images", "reason"),
)


def object_statistics(
    table: ObjectTable,
    pairs: Sequence[Sequence[str]],
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return the difference of presence of every object for every pair of words, with `OBJECT_COLUMNS`.

    Of pairs (first, second) a positive difference leans to the second. Its interval is the adjusted one, which holds
    for rare objects; ``p_value`` is the exact paired test's, ``p_objects`` adjusts it over all objects of the pair
    (Benjamini and Hochberg). NaN where undefined; ``reason`` says why.
    """
    tables = [pd.DataFrame(columns=list(OBJECT_COLUMNS))]
    for first, second in pairs:
        images = table.totals()[:, [table.column(name) for name in (first, second)]]
        gap = presence_differences(table, first, second, level=level)
        columns = {
            "first": first,
            "second": second,
            "object": table.objects,
            "images_first": images[:, 0],
            "images_second": images[:, 1],
            "difference": gap.value,
            "difference_low": gap.low,
            "difference_high": gap.high,
            "p_value": gap.p_value,
            "p_objects": adjust_p_values(gap.p_value),
            "n_prompts": len(table.prompts),
            "n_images": table.n_images,
            "reason": gap.reason,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables[1:] or tables, ignore_index=True)


def table_statistics(
    table: ObjectTable,
    comparisons: Sequence[Sequence[str]],
    *,
    permutations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the label-swap tests of whole tables, two rows a comparison (presence, detections), `TABLE_COLUMNS`."""
    rows = []
    for names in comparisons:
        chosen = table.select(list(names))
        for of in ("presence", "detections"):
            swaps = label_swap_test(chosen, of=of, permutations=permutations, seed=seed)
            sizes = (
                swaps.cramers_v,
                swaps.cramers_v_floor,
                swaps.p_value,
                len(chosen.prompts),
                chosen.n_images,
            )
            rows.append(("-".join(chosen.indicators), of, *sizes, swaps.reason))
    return pd.DataFrame(rows, columns=list(TABLE_COLUMNS))
