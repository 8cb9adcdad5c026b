"""Table ``unfinished``: over how much the other tables speak, of a run that was measured before it was finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from probes.runs.selection import KEY

COLUMNS = ("what", "there", "planned")
_WHAT = {
    "triplets": "triplets of which an image was drawn",
    "images": "images drawn",
    "observed": "observed images",
    "traced": "parts of the trace",
}


def completeness(meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """Return how much there was of a run when it was measured, one row per quantity; None where nothing was missing."""
    noted = meta.get(KEY)
    if not noted:
        return None
    rows = [(what, *noted[name]) for name, what in _WHAT.items() if name in noted]
    rows += [
        (f"images with {kind}", there, noted["images"][1]) for kind, there in noted.get("others", {}).items()
    ]
    rows += [(f"images with {kind}", 0, noted["images"][1]) for kind in noted.get("without", ())]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"there": "int64", "planned": "int64"})
