"""The smallest set of places without which a word's effect is gone, as far as a trace has patched sets of places.

What is enough is no guide to where a model can be edited: of two redundant places either is enough, and an edit of one
leaves the other. What is *needed* is: with the reference's activations there, nothing is left of the word.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.methods.tracing.effects import JOIN
from analysis.methods.tracing.interplay import LEVEL
from analysis.methods.tracing.shares import PAIR
from probes.stages.trace.variants import KEYS_AND_VALUES

GONE = 0.9  # of the total effect: what a set must be needed for


@dataclass(frozen=True)
class NeededSet:
    """A set of places, and how much of the total effect is gone without it.

    Attributes
    ----------
    sites : tuple of str
    share, low, high : float
        Necessity of the set with the interval of its family; of several places that were never patched at once the sum
        of what each is needed for, without an interval (NaN).
    """

    sites: tuple[str, ...]
    share: float
    low: float = float("nan")
    high: float = float("nan")

    @property
    def at_once(self) -> bool:
        """Whether the places were patched at once."""
        return not pd.isna(self.low)


def smallest_needed(shares: pd.DataFrame) -> NeededSet | None:
    """Return the smallest set of places without which the effect is gone; None where none is told to be needed.

    Parameters
    ----------
    shares
        ``trace_shares`` of one outcome and donor. Single places and pairs count, of keys and values at all steps.

    Returns
    -------
    NeededSet or None
        The fewest places that are needed for at least `GONE` of the effect, and of several such sets the one that is
        needed most. Where no such set was patched, all places that are told to be needed (adjusted p below 0.05). None
        also where a place is told to act against the word: without its opponents there would be more than no effect.
    """
    if shares.empty:
        return None
    rows = shares[shares["kind"].isin(["site", PAIR]) & (shares["part"] == KEYS_AND_VALUES)]
    told = rows[rows["necessity"].notna() & (rows["p_necessity_adjusted"] < LEVEL)]
    if (told["necessity"] < 0).any():
        return None
    enough = told[told["necessity"] >= GONE]
    if len(enough):
        order = enough.assign(number=enough["site"].str.count(JOIN)).sort_values(
            ["number", "necessity"], ascending=[True, False], kind="stable"
        )
        row = order.iloc[0]
        return NeededSet(
            tuple(row["site"].split(JOIN)),
            *(float(row[f"necessity{end}"]) for end in ("", "_joint_low", "_joint_high")),
        )
    single = told[told["kind"] == "site"].sort_values("necessity", ascending=False, kind="stable")
    if single.empty:
        return None
    return NeededSet(tuple(single["site"]), float(single["necessity"].sum()))
