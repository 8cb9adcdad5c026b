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
    "object_claims": "reason",
    "object_corrected": "reason",
    "table_tests": "reason",
    "figure04_bias_scores": "reason",
    "table07_chi_square": "warnings",
}


def leave_untested(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """Put NaN and the reason in place of p-values and intervals over prompts that share their noise.

    The paper's chi-square, which takes every detection as independent, is left as it is, with a warning.
    """
    if name not in REASONS:
        return table
    why = REASONS[name]
    texts = table[why].map(lambda text: f"{text}; {SHARED_NOISE}" if text else SHARED_NOISE)
    changed = {}
    if why == "reason":
        tests = [
            column for column in table if column.startswith("p_") or column.split("_")[-1] in ("low", "high")
        ]
        changed = dict.fromkeys(tests, np.nan)
    if name == "object_claims":
        changed["claim"] = UNTESTED
    return table.assign(**changed, **{why: texts})
