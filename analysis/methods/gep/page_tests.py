"""What the report says of a run's attributes, tested together: settings and contrasts are several questions.

A sentence asks of each setting and contrast whether attributes differ by more than chance gives. These p-values are
adjusted for one another (Holm 1979), and an attribute differs only where its setting and contrast does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """Return both tables with ``p_adjusted`` over what the page says; NaN in scores of which it says nothing."""
    source = first_source(score)
    said, attributes = (
        (table["source"] == source) & (table["kind"] == "contrast") for table in (score, vector)
    )
    score = score.assign(p_adjusted=np.nan)
    score.loc[said, "p_adjusted"] = adjust_p_values(score.loc[said, "p_value"], method="holm")
    whole = score.loc[said].set_index(ASKED)["p_adjusted"]
    of_whole = whole.reindex(pd.MultiIndex.from_frame(vector.loc[attributes, ASKED])).to_numpy()
    own = vector.loc[attributes, "p_adjusted"].to_numpy(float)
    vector = vector.assign(p_adjusted=vector["p_adjusted"].astype(float))
    vector.loc[attributes, "p_adjusted"] = np.maximum(own, of_whole.astype(float))
    return vector, score


def more_than_chance(row: Mapping[str, Any], alpha: float) -> bool:
    """Return whether the score of a row of ``tables/gep_score`` is called more than chance, at level `alpha`."""
    adjusted = row["p_value"] if np.isnan(row["p_adjusted"]) else row["p_adjusted"]
    return bool(adjusted < alpha and row["score"] > row["floor"])
