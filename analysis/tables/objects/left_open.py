"""Numbers that tables of objects leave open: NaN, with the reason.

A count is known where the object was looked for. Where nothing but the nouns of each triplet's prompts was, an object
is known in the images whose prompt names it and in no others. So of the quantities of Wu et al. 2025 those stand that
count what a prompt names, in the images of that prompt: the explicit groups and the hidden nouns. All others add up
images in which nobody looked: the counts of all objects (Eq. 3), their similarity (Eq. 4), bias scores (Eq. 5) and
tests, and everything implicit, which is what no prompt names. They would be 1, 0 % or 1/2 whatever was drawn.

Where all prompts of a seed share their noise (``sampler.noise: shared``), prompts are no independent sample: the
prompts of a seed show or lack an object together. So p-values and intervals over prompts are NaN; counts, shares and
bias scores stand. Gaps have both samples in their error instead, prompts and seeds (`analysis.stats.crossed`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from analysis.metrics.cooccurrence import ALL
from analysis.metrics.dependency import GROUPS
from analysis.tables.objects.claims import UNTESTED
from probes.runs.run import Run

PROMPTS_ALONE = "only the nouns of the prompts were looked for"
SHARED_NOISE = "all prompts of a seed share their noise and so depend on each other"
UNKNOWN_GROUPS = (ALL, *(group for group in GROUPS if group.startswith("implicitly")))
_UNKNOWN = {  # the columns of each table that are not known of such a group
    "table07_chi_square": ("statistic", "p_value", "cramers_v", "smallest_expected", "warnings"),
    "table_tests": ("p_value", "cramers_v", "cramers_v_floor"),
    "figure04_bias_scores": ("bias_score", "low", "high", "top", "top_left_out", "kept"),
    "table11_presence": ("percent_of_images", "images"),
    "table12_amounts": ("amount",),
    "table13_intersection": ("percent", "common"),
}
TESTED = ("object_tests", "object_claims", "table_tests", "figure04_bias_scores")


def prompts_alone(run: Run) -> bool:
    """Return whether nothing but the nouns of each triplet's prompts was looked for, by the observer's record."""
    return (run.meta.get("observer") or {}).get("tags") == ["prompt"]


def leave_open(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Put NaN and the reason into what a table cannot say where nothing but nouns of prompts was looked for.

    Counts among which one is open are floats, and there is a column ``reason``.
    """
    if name not in _UNKNOWN:
        return table
    rows = table.filter(["group", "over_group"]).isin(UNKNOWN_GROUPS).any(axis=1)
    table = table.assign(reason=table.get("reason", "")).astype({"reason": object})
    table.loc[rows, "reason"] = PROMPTS_ALONE
    for column in _UNKNOWN[name]:
        if is_bool_dtype(table[column]):
            table[column] &= ~rows
        elif is_numeric_dtype(table[column]):
            table[column] = table[column].astype(float).mask(rows, np.nan)
        else:
            table[column] = table[column].mask(rows, "")
    return table


def leave_untested(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Put NaN and the reason in place of p-values and intervals over prompts that share their noise.

    The paper's chi-square, which takes every detection as independent, is left as it is, with a warning.
    """
    why = "warnings" if name == "table07_chi_square" else "reason"
    if name in TESTED:
        table = table.assign(**dict.fromkeys(table.filter(regex="^p_|(^|_)(low|high)$"), np.nan))
    elif why == "reason":
        return table
    if name == "object_claims":
        table["claim"] = UNTESTED
    return table.assign(**{why: (table[why] + "; " + SHARED_NOISE).str.removeprefix("; ")})
