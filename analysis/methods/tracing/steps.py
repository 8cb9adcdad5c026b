"""Tables ``trace_curve``, ``trace_shapley`` and ``trace_cuts``: when a trace finds its effect, how layers share it out.

Cuts are patches whose share is known, whatever the model: they test the tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import JOIN, WHAT, Effects
from analysis.methods.tracing.shares import SHARE_COLUMNS, _entries, curve_of, share_table
from analysis.stats.shapley import Shapley, exact_shapley, sampled_shapley
from analysis.stats.shares import shares
from analysis.tables.interval_columns import interval_columns, with_ends

VERSION = "trace_steps/1"
TOLERANCE = 1e-6  # of a cut, in units of the outcome
UNTESTED = "cannot be tested: no prompt has a total effect"
_CURVE = ("next_step", *with_ends("decrement"), "decrement_reason")
CURVE_COLUMNS = tuple(
    name for name in (*SHARE_COLUMNS[:-1], *_CURVE, "version") if name not in ("kind", "positions", "heads")
)
SHAPLEY_COLUMNS = (
    *("outcome", "site", "donor", *with_ends("shapley"), "sampling_error", "n_orders"),
    *("n_prompts", "reason", "version"),
)
CUT_COLUMNS = (
    *("outcome", "cut", "site", "part", "positions", "recipient", "donor", "expected", "share"),
    *("deviation", "holds", "n_prompts", "reason", "version"),
)


def curve_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Return ``trace_curve``: shares when the donor's text enters at a step, and what is decided before the next."""
    found = share_table(traced, ["curve"], sampling)
    rows = []
    for one in traced:
        places = _entries(one)
        for donor in one.donors if places else ():
            curve = curve_of(one, donor, places, sampling)
            less = curve.decrements
            for at, (first, after) in enumerate(zip(curve.entries, curve.entries[1:])):
                ends = interval_columns("decrement", less.share[at], less.low[at], less.high[at])
                key = {"outcome": one.outcome, "donor": donor, "first_step": first}
                rows.append({**key, "next_step": after, **ends, "decrement_reason": less.reason[at]})
    if not rows:
        return pd.DataFrame(columns=list(CURVE_COLUMNS))
    joined = found.merge(pd.DataFrame(rows), on=["outcome", "donor", "first_step"])
    order = joined.groupby(["outcome", "donor"], sort=False).ngroup()
    joined = joined.assign(_order=order).sort_values(["_order", "first_step"], kind="stable")
    return joined[list(CURVE_COLUMNS)].reset_index(drop=True)


def shapley_table(
    traced: Sequence[Effects], orders: Sequence[Sequence[str]], sampling: dict[str, Any]
) -> pd.DataFrame:
    """Return ``trace_shapley``: how the places of a trace share its total effect out, with `SHAPLEY_COLUMNS`.

    Parameters
    ----------
    traced : sequence of Effects
    orders : sequence of sequences of str
        Sampled permutations of the cross-attentions; none: exact values.
    sampling : dict
        ``level``, ``resamples`` and ``seed``.
    """
    tables = []
    for one in traced:
        subsets = one.places(["subset"])
        sites = [frozenset(place[WHAT.index("site")].split(JOIN)) for place in subsets]
        players = _players(one)
        for donor in one.donors if subsets and players else ():
            worth = {chosen: one.sufficiency(place, donor) for chosen, place in zip(sites, subsets)}
            found = _shapley(worth, players, orders)
            share = shares(found.values, one.total(donor), **sampling)
            with np.errstate(invalid="ignore", divide="ignore"):
                error = found.sampling_errors() / np.abs(np.nanmean(one.total(donor)))
            tables.append(
                pd.DataFrame({"site": players}).assign(
                    outcome=one.outcome,
                    donor=donor,
                    **interval_columns("shapley", share.share, share.low, share.high),
                    sampling_error=np.where(np.isnan(share.share), np.nan, error),
                    n_orders=len(orders),
                    n_prompts=share.n,
                    reason=share.reason,
                    version=f"{VERSION}, {one.version}",
                )[list(SHAPLEY_COLUMNS)]
            )
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(SHAPLEY_COLUMNS))


def _players(one: Effects) -> list[str]:
    """The sites of the complete patch, in the order in which they run."""
    places = one.places(["complete", "subset"])
    return max((place[WHAT.index("site")].split(JOIN) for place in places), key=len, default=[])


def _shapley(
    worth: Mapping[frozenset[str], np.ndarray], players: Sequence[str], orders: Sequence[Sequence[str]]
) -> Shapley:
    return sampled_shapley(worth, players, orders) if orders else exact_shapley(worth, players)


def cut_table(
    traced: Sequence[Effects], variants: pd.DataFrame, expected: Mapping[str, float]
) -> pd.DataFrame:
    """Return ``trace_cuts``: one row per outcome and cut, with `CUT_COLUMNS`.

    ``deviation`` is the largest difference, over prompts, between the effect of the cut and its expected share of the
    total effect, in units of the outcome; a cut holds where it is at most `TOLERANCE`. Where no prompt has a total
    effect any share of it is 0: nothing is tested then but a patch of a row into itself, and ``reason`` says so.

    Parameters
    ----------
    traced : sequence of Effects
    variants : DataFrame
        See `analysis.methods.tracing.effects.variant_table`; a cut's variant is named ``cut:NAME:…``.
    expected : mapping of str to float
        The share of each cut, by its name.
    """
    rows = []
    cuts = variants[variants["kind"] == "cut"]
    clean = cuts[list(WHAT)].astype(object).where(cuts[list(WHAT)].notna(), None)
    for one in traced:
        for place, row in zip(clean.itertuples(index=False, name=None), cuts.to_dict("records")):
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
        "site": place[WHAT.index("site")],
        "part": place[WHAT.index("part")],
        "positions": place[WHAT.index("positions")],
        "recipient": row["recipient"],
        "donor": row["donor"],
        "expected": expected,
        "share": share,
        "deviation": deviation,
        "holds": tested and bool(deviation <= TOLERANCE),
        "n_prompts": int(known.sum()),
        "reason": reason,
        "version": f"{VERSION}, {one.version}",
    }
