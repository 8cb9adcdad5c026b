"""Table ``trace_together``: what places do together beside the sum of what each does alone.

Shares of places add up to 1 only where places do not depend on one another. With :math:`E_a, E_b` the effects of two
places and :math:`E_{ab}` that of both patched at once, the *interaction* is :math:`E_{ab} - E_a - E_b`. Of sufficiency
it is below 0 where either place is enough (redundant), above 0 where one needs the other; of necessity the other way
round: of two redundant places neither is needed, and both are. Of all ways by which the text reaches the image (all
cross-attentions; all joint attentions and the pooled text) it is the effect of all at once less the sum over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import JOIN, WHAT, Effects, Place
from analysis.methods.tracing.shares import PAIR, mean_effects, p_values
from analysis.stats.shares import shares
from analysis.tables.interval_columns import interval_columns, with_ends
from probes.stages.trace.patch_sites import POOLED
from probes.stages.trace.variants import KEYS_AND_VALUES

VERSION = "trace_together/2"
NOT_ALL = "not every attention to the text was patched alone with its keys and values"
SUM = "sum"
ESTIMANDS = ("sufficiency", "necessity")
TOGETHER_COLUMNS = (
    *("outcome", "donor", "kind", "site", "part", "n_places"),
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


def together_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Return ``trace_together``: one row per outcome, donor and set of places, with `TOGETHER_COLUMNS`.

    ``kind`` is ``sum``, of every place that was swept, or ``pair``. Where every way of the text was swept the sum is of
    these, without what lies before or behind them. The sum of shares has an interval of its own; interactions, as
    shares of the total effect, have one of all rows of an outcome and donor, of sufficiency and necessity together, so
    that whatever is said of any of them is one family. Without a total effect they are NaN, and their p-values, and
    the interaction in units of the outcome, those of the effects themselves.

    Parameters
    ----------
    traced : sequence of Effects
    sampling : dict
        ``level``, ``resamples`` and ``seed``.
    """
    tables = [
        _of(one, rows, donor, sampling) for one in traced if (rows := _rows(one)) for donor in one.donors
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(TOGETHER_COLUMNS))


def _rows(one: Effects) -> list[tuple[str, list[Place], Place | None]]:
    """Return kind, places and the patch of all of them at once (None: there is none) of each row."""
    alone = one.places(["site"])
    by_site = {_value(place, "site"): place for place in alone}
    rows: list[tuple[str, list[Place], Place | None]] = []
    if len(alone) > 1:
        complete = next(iter(one.places(["complete"])), None)
        ways = [] if complete is None else _value(complete, "site").split(JOIN)
        whole = bool(ways) and all(_is_way(by_site.get(site)) for site in ways)
        rows.append((SUM, [by_site[site] for site in ways], complete) if whole else (SUM, alone, None))
    for pair in one.places(["pair"]):
        rows.append((PAIR, [by_site[site] for site in _value(pair, "site").split(JOIN)], pair))
    return rows


def _is_way(place: Place | None) -> bool:
    """Return whether a place was swept as the patch of all ways holds it."""
    return place is not None and (_value(place, "part") == KEYS_AND_VALUES or _value(place, "site") == POOLED)


def _value(place: Place, name: str) -> Any:
    return place[WHAT.index(name)]


def _of(one: Effects, rows, donor: str, sampling: dict[str, Any]) -> pd.DataFrame:
    total = one.total(donor)
    table = pd.DataFrame(
        {
            "kind": [kind for kind, _, _ in rows],
            "site": [JOIN.join(_value(place, "site") for place in places) for _, places, _ in rows],
            "part": [_value(places[0], "part") for _, places, _ in rows],
            "n_places": [len(places) for _, places, _ in rows],
        }
    ).assign(outcome=one.outcome, donor=donor, version=f"{VERSION}, {one.version}", n_prompts=0)
    sums, apart = [], []
    for name in ESTIMANDS:
        effect = getattr(one, name)
        sums.append(np.column_stack([sum(effect(place, donor) for place in places) for _, places, _ in rows]))
        at_once = [one.nothing if whole is None else effect(whole, donor) for _, _, whole in rows]
        apart.append(np.column_stack(at_once) - sums[-1])
    # one family: where either of them is told, the claim is the same
    every = np.hstack(apart)
    beyond, itself = shares(every, total, **sampling), mean_effects(every, total, sampling)
    p_value, p_adjusted = p_values(beyond, itself)
    for number, name in enumerate(ESTIMANDS):
        of_sums, own = (
            shares(sums[number], total, **sampling),
            slice(number * len(rows), (number + 1) * len(rows)),
        )
        ends = beyond.share[own], beyond.joint_low[own], beyond.joint_high[own]
        table = table.assign(
            **interval_columns(f"{name}_sum", of_sums.share, of_sums.low, of_sums.high),
            **interval_columns(f"{name}_interaction", *ends),
            **{
                f"{name}_effect_interaction": itself.ratio[own],
                f"p_{name}": p_value[own],
                f"p_{name}_adjusted": p_adjusted[own],
                f"{name}_reason": _reasons(
                    of_sums.reason, apart[number], [whole is None for _, _, whole in rows]
                ),
            },
            n_prompts=np.maximum(table["n_prompts"], of_sums.n),
        )
    return table[list(TOGETHER_COLUMNS)]


def _reasons(
    reason: NDArray[np.object_], apart: NDArray[np.float64], no_whole: Sequence[bool]
) -> NDArray[np.object_]:
    """Why a sum or an interaction is missing."""
    missing = np.isnan(apart).all(axis=0) & np.array(no_whole)
    return np.where((reason == "") & missing, NOT_ALL, reason)
