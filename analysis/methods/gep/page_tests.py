"""What the report's page on attributes says of a run, tested together: settings and contrasts are several questions.

A sentence asks of each setting and contrast whether attributes differ by more than chance gives. These p-values are
adjusted for one another (Holm 1979), and an attribute differs only where its setting and contrast does.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.gep.sources import ORDER
from analysis.stats.multiplicity import adjust_p_values

ASKED = ["setting", "first", "second"]


def first_source(score: pd.DataFrame) -> str | None:
    """Return the source that the page speaks of: the first of `ORDER` that read the images, None without one."""
    there = set(score["source"])
    return next((name for name in ORDER if name in there), None)


def adjust_page(vector: pd.DataFrame, score: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both tables with ``p_page``, adjusted over what the page says; NaN in rows of which it says nothing."""
    source = first_source(score)
    said, drawn = ((table["source"] == source) & (table["kind"] == "contrast") for table in (score, vector))
    adjusted = adjust_p_values(score.loc[said, "p_value"], method="holm")
    score = score.assign(p_page=np.nan)
    score.loc[said, "p_page"] = adjusted
    whole = score.loc[said].set_index(ASKED)["p_page"]
    of_whole = whole.reindex(pd.MultiIndex.from_frame(vector.loc[drawn, ASKED])).to_numpy()
    vector = vector.assign(p_page=np.nan)
    vector.loc[drawn, "p_page"] = np.maximum(vector.loc[drawn, "p_adjusted"].to_numpy(), of_whole)
    return vector, score
