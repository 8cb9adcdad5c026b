"""Which places of a trace are redundant, need each other or act in series, and what their shares add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.tracing.effects import JOIN
from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.shares import PAIR
from analysis.methods.tracing.spans import joint_share, with_span
from analysis.methods.tracing.stored import TraceSection
from analysis.methods.tracing.together import ESTIMANDS, SUM
from analysis.report.format import listed, number

LEVEL = 0.05  # below which an adjusted p is called beyond the floor
HALF = 0.5  # of the total effect: what acts only together has intervals alone that hold 0 and end below it


def together(traced: TraceSection) -> list[str]:
    """Say what the shares of all places add up to, and how places act together."""
    rows, shares = traced.shown("trace_together"), traced.shown("trace_shares")
    if rows.empty:
        return []
    places = int((shares["kind"] == "site").sum()) if len(shares) else 0
    sentences = []
    for row in rows[rows["kind"] == SUM].to_dict("records"):
        sums = [
            f"{estimand} to {number(row[f'{estimand}_sum'], 2)}{with_span(row, f'{estimand}_sum')}"
            for estimand in ESTIMANDS
            if pd.notna(row[f"{estimand}_sum"])
        ]
        text = f"The shares of {_whole(row, places)} add up in {' and in '.join(sums)}." if sums else ""
        if kind := interplay(row):
            text += (
                f" Patched all at once they differ from these sums ({_beyond_sums(row)}): {_INTERPLAY[kind]}."
            )
            if not (rows["kind"] == PAIR).any():
                text += " Pairs of places, patched together (`trace.pairs`), show which."
        if text:
            sentences.append(text.strip())
    return [*sentences, *_of_pairs(rows[rows["kind"] == PAIR], shares)]


def _of_pairs(pairs: pd.DataFrame, shares: pd.DataFrame) -> list[str]:
    """Say of each pair of places how they act together, where the intervals license it."""
    sentences = []
    for row in pairs.to_dict("records"):
        if kind := pair_claim(row, shares):
            first, second = (patch_name(pd.Series({"site": site})) for site in row["site"].split(JOIN))
            beyond = f"both at once less the sum of each: {_beyond_sums(row)}"
            said = _alone(row, shares) if kind == ONLY_TOGETHER else f"{_PAIRS[kind]} ({beyond})"
            sentences.append(f"{first} and {second} {said}.")
    tested = pairs[[f"{name}_interaction" for name in ESTIMANDS]].notna().any(axis=1) if len(pairs) else []
    if (number_of := int(sum(tested))) and not sentences:
        what = (
            "The pair of places that was"
            if number_of == 1
            else f"None of the {number_of} pairs of places that were"
        )
        verb = "does not differ" if number_of == 1 else "differs"
        sentences.append(f"{what} patched together {verb} from the sum of its places by more than chance.")
    return sentences


def pair_claim(row: Mapping[str, Any], shares: pd.DataFrame) -> str:
    """Return what the report says of a pair of places, see `interplay`; `ONLY_TOGETHER` where that is told.

    Parameters
    ----------
    row
        Of ``trace_together``.
    shares
        ``trace_shares`` of the same outcome and donor.
    """
    kind = interplay(row)
    if kind != DEPENDENT or not row["p_sufficiency_adjusted"] < LEVEL:
        return kind
    alone = shares[(shares["kind"] == "site") & shares["site"].isin(row["site"].split(JOIN))]
    low, high = (alone[f"sufficiency_joint_{end}"] for end in ("low", "high"))
    return ONLY_TOGETHER if len(alone) == 2 and ((low <= 0) & (high >= 0) & (high < HALF)).all() else kind


def _alone(row: Mapping[str, Any], shares: pd.DataFrame) -> str:
    """Say that two places act only together, and what they do alone and at once."""
    by_site = shares[shares["kind"].isin(["site", PAIR])].set_index("site")
    names = (*row["site"].split(JOIN), row["site"])
    first, second, at_once = (joint_share(by_site.loc[name], "sufficiency") for name in names)
    return f"act only together: alone they are enough for {first} and {second}, both at once for {at_once}"


def _whole(row: Mapping[str, Any], places: int) -> str:
    """What a sum is of: all places that were swept, or those by which the text reaches the image."""
    number = row["n_places"]
    return f"all {number} places" if number >= places else f"the {number} ways of the text into the image"


def _beyond_sums(row: Mapping[str, Any]) -> str:
    """What places do at once beyond the sum of what each does alone."""
    parts = [
        f"{estimand} by {number(row[f'{estimand}_interaction'], 2, signed=True)}"
        f"{with_span(row, f'{estimand}_interaction')}"
        for estimand in ESTIMANDS
        if pd.notna(row[f"{estimand}_interaction"])
    ]
    return listed(parts)


REDUNDANT, DEPENDENT, SERIES, ONLY_TOGETHER = "redundant", "dependent", "series", "only together"
_INTERPLAY = {
    REDUNDANT: "places are redundant, one can stand for another, so that one that is enough may not be needed",
    DEPENDENT: "places need one another, so that one alone shows too little",
    SERIES: "places act in series, one passes on what another wrote, so that more than one may be enough and needed",
}
_PAIRS = {
    REDUNDANT: "are redundant: either can stand for the other",
    DEPENDENT: "need each other",
    SERIES: "act in series: either is enough and either is needed, as where one passes on what the other wrote",
}


def interplay(row: Mapping[str, Any]) -> str:
    """Return how places act together, by a row of ``trace_together``; empty where nothing is told.

    Redundant places do less at once than the sum of what each is enough for, and are needed more at once than each is;
    of places that need each other it is the other way round. Places in series do less at once than the sum, both ways.
    Signs are those of the total effect; without one nothing is said.
    """
    told = {}
    for estimand in ESTIMANDS:
        value, p = row[f"{estimand}_interaction"], row[f"p_{estimand}_adjusted"]
        if pd.notna(value) and p < LEVEL:
            told[estimand] = bool(value > 0)
    if told == dict.fromkeys(ESTIMANDS, False):
        return SERIES
    found = {above == (estimand == "sufficiency") for estimand, above in told.items()}
    return "" if len(found) != 1 else DEPENDENT if found.pop() else REDUNDANT
