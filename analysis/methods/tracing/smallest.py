"""The smallest sets of places that are enough for a word's effect, or without which it is gone.

They say where a model can be edited. To move the reference word towards another, its activations must become the other
word's wherever that is *enough*: of two redundant places one will do, of two that act only together both must be
edited. To take the difference between words out, all must be edited without which nothing is left of it, those that are
*needed*: of two redundant places both, of two that act only together either.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.methods.tracing.effects import JOIN
from analysis.methods.tracing.interplay import LEVEL
from analysis.methods.tracing.shares import PAIR
from probes.stages.trace.variants import KEYS_AND_VALUES

MOST = 0.8  # of the total effect: what a set must be enough or needed for
ENOUGH, NEEDED = "sufficiency", "necessity"
_P_VALUES = {ENOUGH: "p_adjusted", NEEDED: "p_necessity_adjusted"}


@dataclass(frozen=True)
class PlaceSet:
    """A set of places, and its share of the total effect.

    Attributes
    ----------
    sites : tuple of str
    share, low, high : float
        What the set is enough for, or needed for, with the interval of its family; of several places that were never
        patched at once the sum over them, without an interval (NaN).
    """

    sites: tuple[str, ...]
    share: float
    low: float = float("nan")
    high: float = float("nan")

    @property
    def at_once(self) -> bool:
        """Whether the places were patched at once."""
        return not pd.isna(self.low)

    @property
    def editable(self) -> bool:
        """Whether ``edit:`` can move a word there: all are cross-attentions of a U-Net."""
        return all(site.startswith("unet.") and site.endswith(".cross") for site in self.sites)


def smallest_set(shares: pd.DataFrame, estimand: str) -> PlaceSet | None:
    """Return the smallest set of places for most of the effect; None where none is told from nothing.

    Parameters
    ----------
    shares
        ``trace_shares`` of one outcome and donor. Single places and pairs count, of keys and values at all steps.
    estimand : str
        `ENOUGH` or `NEEDED`.

    Returns
    -------
    PlaceSet or None
        The fewest places with a share of at least `MOST`, and of several such sets the one with the largest. Where no
        such set was patched, all places whose share is told from nothing (adjusted p below 0.05). None also where a
        place is told to act against the word: without its opponents there would be more than no effect.
    """
    if shares.empty:
        return None
    rows = shares[shares["kind"].isin(["site", PAIR]) & (shares["part"] == KEYS_AND_VALUES)]
    told = rows[rows[estimand].notna() & (rows[_P_VALUES[estimand]] < LEVEL)]
    if (told[estimand] < 0).any():
        return None
    most = told[told[estimand] >= MOST]
    if len(most):
        order = most.assign(number=most["site"].str.count(JOIN)).sort_values(
            ["number", estimand], ascending=[True, False], kind="stable"
        )
        row = order.iloc[0]
        ends = (float(row[f"{estimand}{end}"]) for end in ("", "_joint_low", "_joint_high"))
        return PlaceSet(tuple(row["site"].split(JOIN)), *ends)
    single = told[told["kind"] == "site"].sort_values(estimand, ascending=False, kind="stable")
    return None if single.empty else PlaceSet(tuple(single["site"]), float(single[estimand].sum()))
