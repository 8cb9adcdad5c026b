r"""Table ``trace_together``: what places do together beside the sum of what each does alone.

Shares of places add up to 1 only where places do not depend on one another. With :math:`E_i` the effect of each place
alone and :math:`E` that of all patched at once, the *interaction* is :math:`E - \sum_i E_i`, of all ways by which the
text reaches the image (all cross-attentions; all joint attentions and the pooled text). Of sufficiency it is below 0
where one of several is enough (redundant), above 0 where one needs another; of necessity the other way round: of
redundant places none is needed alone, and all are. It is a warning: which places depend on which is not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import JOIN, WHAT, Effects, Place
from analysis.methods.tracing.shares import mean_effects, p_values
from analysis.stats.shares import shares
from analysis.tables.interval_columns import interval_columns, with_ends
from probes.stages.trace.variants import KEYS_AND_VALUES, POOLED

VERSION = "trace_together/3"
NOT_ALL = "not every attention to the text was patched alone with its keys and values"
ESTIMANDS = ("sufficiency", "necessity")
TOGETHER_COLUMNS = (
    *("outcome", "donor", "site", "n_places"),
    *(
        column
        for name in ESTIMANDS
        for column in (
            *with_ends(f"{name}_sum"),
            *with_ends(f"{name}_interaction"),
            *(f"{name}_effect_interaction", f"p_{name}", f"p_{name}_adjusted", f"{name}_reason"),
        )
    ),
    *("n_prompts", "version"),
)
REDUNDANT, DEPENDENT, SERIES = "redundant", "dependent", "series"


def together_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Table ``trace_together``: one row per outcome and donor, with `TOGETHER_COLUMNS`.

    Where every way of the text was swept the sum is of these, without what lies before or behind them; else of every
    place that was swept, and there is no interaction. The sum of shares has an interval of its own; interactions, as
    shares of the total effect, have one of sufficiency and necessity together, so that whatever is said of either is
    one family. Without a total effect they are NaN, and their p-values, and the interaction in units of the outcome,
    those of the effects themselves.
    """
    rows = [
        _row(one, *found, donor, sampling)
        for one in traced
        if (found := _places(one))
        for donor in one.donors
    ]
    return pd.DataFrame(rows, columns=list(TOGETHER_COLUMNS))


def _places(one: Effects) -> tuple[list[Place], Place | None] | None:
    """Return the places that are summed, and the patch of all of them at once (None: there is none)."""
    alone = one.places(["site"])
    if len(alone) < 2:
        return None
    by_site = {_value(place, "site"): place for place in alone}
    complete = next(iter(one.places(["complete"])), None)
    ways = [] if complete is None else _value(complete, "site").split(JOIN)
    if ways and all(_is_way(by_site.get(site)) for site in ways):
        return [by_site[site] for site in ways], complete
    return alone, None


def _is_way(place: Place | None) -> bool:
    """Return whether a place was swept as the patch of all ways holds it."""
    return place is not None and (_value(place, "part") == KEYS_AND_VALUES or _value(place, "site") == POOLED)


def _value(place: Place, name: str) -> Any:
    return place[WHAT.index(name)]


def _row(
    one: Effects, places: Sequence[Place], whole: Place | None, donor: str, sampling: dict[str, Any]
) -> dict[str, Any]:
    total = one.total(donor)
    of_each = [getattr(one, name) for name in ESTIMANDS]
    sums = np.column_stack([sum(effect(place, donor) for place in places) for effect in of_each])
    at_once = np.column_stack([one.nothing if whole is None else effect(whole, donor) for effect in of_each])
    apart = at_once - sums
    beyond, itself = shares(apart, total, **sampling), mean_effects(apart, total, sampling)
    p_value, p_adjusted = p_values(beyond, itself)
    row: dict[str, Any] = {
        "outcome": one.outcome,
        "donor": donor,
        "site": JOIN.join(_value(place, "site") for place in places),
        "n_places": len(places),
        "n_prompts": 0,
        "version": f"{VERSION}, {one.version}",
    }
    for number, name in enumerate(ESTIMANDS):
        of_sum = shares(sums[:, [number]], total, **sampling)
        interaction = beyond.share[number], beyond.joint_low[number], beyond.joint_high[number]
        row |= interval_columns(f"{name}_sum", of_sum.share[0], of_sum.low[0], of_sum.high[0])
        row |= interval_columns(f"{name}_interaction", *interaction)
        row |= {
            f"{name}_effect_interaction": itself.ratio[number],
            f"p_{name}": p_value[number],
            f"p_{name}_adjusted": p_adjusted[number],
            f"{name}_reason": NOT_ALL if of_sum.reason[0] == "" and whole is None else of_sum.reason[0],
            "n_prompts": max(row["n_prompts"], int(of_sum.n[0])),
        }
    return row


def interplay(row: Mapping[str, Any], alpha: float) -> str:
    """Return how places act together, by a row of ``trace_together`` and tests of level `alpha`; empty where nothing
    is told.

    Redundant places do less at once than the sum of what each is enough for, and are needed more at once than each is;
    of places that need each other it is the other way round. Places in series do less at once than the sum, both ways.
    Signs are those of the total effect; without one nothing is said.
    """
    told = {}
    for estimand in ESTIMANDS:
        value, p = row[f"{estimand}_interaction"], row[f"p_{estimand}_adjusted"]
        if pd.notna(value) and p < alpha:
            told[estimand] = bool(value > 0)
    if told == dict.fromkeys(ESTIMANDS, False):
        return SERIES
    found = {above == (estimand == "sufficiency") for estimand, above in told.items()}
    return "" if len(found) != 1 else DEPENDENT if found.pop() else REDUNDANT
