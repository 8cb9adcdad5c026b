"""Tags looked for in the images of a run, and the numbers that they leave open.

A count is known where the object was looked for. Where nothing but the nouns of each triplet's prompts was, an object
is known in the images whose prompt names it and in no others. So of the quantities of Wu et al. 2025 those stand that
count what a prompt names, in the images of that prompt: the explicit groups and the hidden nouns. All others add up
images in which nobody looked: the counts of all objects (Eq. 3), their similarity (Eq. 4), bias scores (Eq. 5) and
tests, and everything implicit, which is what no prompt names. They would be 1, 0 % or 1/2 whatever was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.metrics.cooccurrence import ALL
from analysis.metrics.dependency import GROUPS
from probes.runs.run import Run

PROMPTS_ALONE = "only the nouns of the prompts were looked for"
KNOWN_GROUPS = tuple(group for group in GROUPS if not group.startswith("implicitly"))


@dataclass(frozen=True)
class _Open:
    """Open cells of a table: these columns, in the rows that name a group that is not known, or in all rows."""

    columns: Sequence[str]
    groups: Sequence[str] = ()
    texts: Sequence[str] = ()  # columns of text that say something of them
    flags: Sequence[str] = ()


_OPEN = {
    "table06_similarity": _Open(("value", "ci_low", "ci_high")),
    "table07_chi_square": _Open(
        ("statistic", "p_value", "cramers_v", "smallest_expected"), ("group",), texts=("warnings",)
    ),
    "table_tests": _Open(("p_value", "cramers_v", "cramers_v_floor"), ("group",)),
    "figure04_bias_scores": _Open(
        ("bias_score", "low", "high"), ("group",), texts=("top", "top_left_out"), flags=("kept",)
    ),
    "table11_presence": _Open(("percent_of_images", "images"), ("group",)),
    "table12_amounts": _Open(("amount",), ("group",)),
    "table13_intersection": _Open(("percent", "common"), ("over_group", "group")),
}


def prompts_alone(run: Run) -> bool:
    """Return whether nothing but the nouns of each triplet's prompts was looked for, by the observer's record."""
    return (run.meta.get("observer") or {}).get("tags") == ["prompt"]


def leave_open(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Put NaN and the reason into what a table cannot say where nothing but nouns of prompts was looked for.

    Counts among which one is open are floats, and there is a column ``reason``.
    """
    if name not in _OPEN:
        return table
    what = _OPEN[name]
    unknown = [
        table[column].isin([ALL, *GROUPS]) & ~table[column].isin(KNOWN_GROUPS) for column in what.groups
    ]
    rows = np.logical_or.reduce(unknown) if unknown else np.ones(len(table), bool)
    if "reason" not in table:
        table = table.assign(reason="")
    changed = {column: table[column].astype(float).mask(rows, np.nan) for column in what.columns}
    changed |= {column: table[column].mask(rows, "") for column in what.texts}
    changed |= {column: table[column] & ~rows for column in what.flags}
    return table.assign(**changed, reason=table["reason"].mask(rows, PROMPTS_ALONE))
