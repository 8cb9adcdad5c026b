"""Who says what an image of an audit shows: readers of images, and estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

POWERED = "PP"
SOURCES = {
    "checker": "the toyworld checker",
    "human": "people",
    "detected": "the object detector",
    POWERED: "a few labels and an estimate together (PP)",
    "CLS": "classifiers trained on CLIP’s text embeddings (CLS)",
    "CC": "CLIP similarity less that of a reference string (CC)",
    "C": "CLIP similarity (C)",
}
ORDER = tuple(SOURCES)  # figures show the first there is


def first_source(*tables: pd.DataFrame) -> str:
    """Return the source that is shown: the first of `ORDER` in the column ``source`` of all tables; empty without."""
    return next((name for name in ORDER if all(name in set(table["source"]) for table in tables)), "")
