"""What statistics of objects cannot say where all prompts of a seed share their noise (``sampler.noise: shared``).

Prompts are the unit of these tests and intervals. With a shared noise the prompts of a seed show or lack an object
together: a word that leaves the noise at one prompt leaves it at others, and prompts are no independent sample. So
p-values and intervals are NaN with this reason; counts, shares and bias scores stand. Gaps have both samples in
their error instead, prompts and seeds (`analysis.stats.crossed`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.tables.objects.claims import UNTESTED

SHARED_NOISE = "all prompts of a seed share their noise and so depend on each other"
REASONS = {  # the column of each table that says why
    "object_tests": "reason",
    "object_claims": "claim_reason",
    "table_tests": "reason",
    "figure04_bias_scores": "reason",
    "table07_chi_square": "warnings",
}
EXACT = "p_exact"  # says how a p-value was come by


def leave_untested(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Put NaN and the reason in place of p-values and intervals over prompts that share their noise.

    The paper's chi-square, which takes every detection as independent, is left as it is, with a warning.
    """
    if name not in REASONS:
        return table
    why = REASONS[name]
    said = table[why].map(lambda text: f"{text}; {SHARED_NOISE}" if text else SHARED_NOISE)
    if name == "table07_chi_square":
        return table.assign(**{why: said})
    tests = [
        column
        for column in table
        if column.startswith(("p_", "paper_p_"))
        or column in ("low", "high")
        or column.endswith(("_low", "_high", "_bound"))
    ]
    changed = dict.fromkeys((column for column in tests if column != EXACT), np.nan)
    if name == "object_claims":
        changed["claim"] = UNTESTED
    return table.assign(**changed, **{why: said})
