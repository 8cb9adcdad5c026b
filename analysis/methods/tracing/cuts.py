"""Table ``trace_cuts``: patches whose share is known, whatever the model. They test the tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import SUFFICIENCY, Effects

VERSION = "trace_cuts/2"
TOLERANCE = 1e-6  # of a cut, in units of the outcome
UNTESTED = "cannot be tested: no prompt has a total effect"
NO_TOTAL, MISSING = "no total effect", "no prompt has the images"
CUT_COLUMNS = (
    *("outcome", "cut", "recipient", "donor", "expected", "share", "deviation", "holds"),
    *("n_prompts", "reason", "version"),
)


def cut_table(
    traced: Sequence[Effects], variants: pd.DataFrame, expected: Mapping[str, float]
) -> pd.DataFrame:
    """Table ``trace_cuts``: one row per outcome and cut, with its expected share (`expected`, by the cut's name).

    ``deviation`` is the largest difference, over prompts, between the effect of the cut and its expected share of the
    total effect, in units of the outcome; a cut holds where it is at most `TOLERANCE`. Where no prompt has a total
    effect any share of it is 0: nothing is tested then but a patch of a row into itself.
    """
    rows = []
    for one in traced:
        for cut in variants[variants["kind"] == "cut"].itertuples():
            name, itself = cut.variant.split(":")[1], cut.donor == cut.recipient
            effect = one.of(SUFFICIENCY, cut.donor, [cut.place])[:, 0]
            total = np.zeros_like(effect) if itself else one.totals[cut.donor].to_numpy()
            known = ~np.isnan(effect - total)
            off = np.abs(effect - expected[name] * total)[known].max(initial=-np.inf)
            tested = known.any() and (itself or (np.abs(total[known]) > TOLERANCE).any())
            total_sum = total[known].sum()
            share = effect[known].sum() / total_sum + 0.0 if total_sum else np.nan  # + 0.0: no -0
            reason = ("" if total_sum else NO_TOTAL) if tested else UNTESTED if known.any() else MISSING
            numbers = share, off if known.any() else np.nan, tested and off <= TOLERANCE, known.sum()
            about = one.outcome, name, cut.recipient, cut.donor, expected[name]
            rows.append((*about, *numbers, reason, f"{VERSION}, {one.version}"))
    return pd.DataFrame(rows, columns=list(CUT_COLUMNS)).astype({"holds": bool})
