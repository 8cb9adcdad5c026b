"""Table ``trace_cuts``: patches whose share is known, whatever the model. They test the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import WHAT, Effects, places_of

VERSION = "trace_steps/1"
TOLERANCE = 1e-6  # of a cut, in units of the outcome
UNTESTED = "cannot be tested: no prompt has a total effect"
CUT_COLUMNS = (
    *("outcome", "cut", "site", "part", "positions", "recipient", "donor", "expected", "share"),
    *("deviation", "holds", "n_prompts", "reason", "version"),
)


def cut_table(
    traced: Sequence[Effects], variants: pd.DataFrame, expected: Mapping[str, float]
) -> pd.DataFrame:
    """Table ``trace_cuts``: one row per outcome and cut, with its expected share (`expected`, by the cut's name).

    ``deviation`` is the largest difference, over prompts, between the effect of the cut and its expected share of the
    total effect, in units of the outcome; a cut holds where it is at most `TOLERANCE`. Where no prompt has a total
    effect any share of it is 0: nothing is tested then but a patch of a row into itself, and ``reason`` says so.
    """
    rows = []
    cuts = variants[variants["kind"] == "cut"]
    for one in traced:
        for place, row in zip(places_of(cuts), cuts.to_dict("records")):
            name = row["variant"].split(":")[1]
            rows.append({"outcome": one.outcome, **_cut(one, place, row, expected[name]), "cut": name})
    return pd.DataFrame(rows, columns=list(CUT_COLUMNS))


def _cut(one: Effects, place: tuple, row: Mapping[str, Any], expected: float) -> dict[str, Any]:
    """Share and deviation of a cut: of sufficiency, or of the word's own images for a patch into itself."""
    effect = one.sufficiency(place, row["donor"])
    total = one.total(row["donor"]) if row["donor"] != row["recipient"] else np.zeros_like(effect)
    known = ~np.isnan(effect - total)
    reason = "" if known.any() else "no prompt has the images"
    off = np.abs(effect - expected * total)[known]
    deviation = float(off.max()) if known.any() else np.nan
    whole = float(total[known].sum())
    share = float(effect[known].sum()) / whole + 0.0 if whole else np.nan  # + 0.0: no -0
    tested = row["donor"] == row["recipient"] or bool((np.abs(total[known]) > TOLERANCE).any())
    if not reason and not tested:
        reason = UNTESTED
    elif not reason and not whole:
        reason = "no total effect"
    return {
        **{name: place[WHAT.index(name)] for name in ("site", "part", "positions")},
        **{name: row[name] for name in ("recipient", "donor")},
        "expected": expected,
        "share": share,
        "deviation": deviation,
        "holds": tested and bool(deviation <= TOLERANCE),
        "n_prompts": int(known.sum()),
        "reason": reason,
        "version": f"{VERSION}, {one.version}",
    }
