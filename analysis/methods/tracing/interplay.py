"""Which places of a trace are redundant or need each other, and what their shares add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.spans import with_span
from analysis.methods.tracing.stored import TraceSection
from analysis.methods.tracing.together import PAIR, SUM
from analysis.report.format import listed, number

LEVEL = 0.05  # below which an adjusted p is called beyond the floor


def together(traced: TraceSection) -> list[str]:
    """Say what the shares of all places add up to, and which places are redundant or need each other."""
    rows, shares = traced.shown("trace_together"), traced.shown("trace_shares")
    if rows.empty:
        return []
    places = int((shares["kind"] == "site").sum()) if len(shares) else 0
    sentences = []
    for row in rows[rows["kind"] == SUM].to_dict("records"):
        sums = [
            f"{estimand} to {number(row[f'{estimand}_sum'], 2)}{with_span(row, f'{estimand}_sum')}"
            for estimand in ("sufficiency", "necessity")
            if pd.notna(row[f"{estimand}_sum"])
        ]
        text = f"The shares of {_whole(row, places)} add up in {' and in '.join(sums)}." if sums else ""
        if kind := interplay(row):
            text += (
                f" Patched all at once they differ from these sums ({_beyond_sums(row)}): {_INTERPLAY[kind]}."
            )
            if not (rows["kind"] == PAIR).any():
                text += " Pairs of the first places, patched together (`trace.pairs`), show which."
        if text:
            sentences.append(text.strip())
    for row in rows[rows["kind"] == PAIR].to_dict("records"):
        if kind := interplay(row):
            first, second = (patch_name(pd.Series({"site": site})) for site in row["site"].split(", "))
            beyond = _beyond_sums(row)
            sentences.append(
                f"{first} and {second} {_PAIRS[kind]} (both at once less the sum of each: {beyond})."
            )
    return sentences


def _whole(row: Mapping[str, Any], places: int) -> str:
    """What a sum is of: all places that were swept, or those by which the text reaches the image."""
    number = row["n_places"]
    return f"all {number} places" if number >= places else f"the {number} ways of the text into the image"


def _beyond_sums(row: Mapping[str, Any]) -> str:
    """What places do at once beyond the sum of what each does alone."""
    parts = [
        f"{estimand} by {number(row[f'{estimand}_interaction'], 2, signed=True)}"
        f"{with_span(row, f'{estimand}_interaction')}"
        for estimand in ("sufficiency", "necessity")
        if pd.notna(row[f"{estimand}_interaction"])
    ]
    return listed(parts)


REDUNDANT, DEPENDENT = "redundant", "dependent"
_INTERPLAY = {
    REDUNDANT: "places are redundant, one can stand for another, so that one that is enough may not be needed",
    DEPENDENT: "places need one another, so that one alone shows too little",
}
_PAIRS = {REDUNDANT: "are redundant: either can stand for the other", DEPENDENT: "need each other"}


def interplay(row: Mapping[str, Any]) -> str:
    """Return whether places are redundant or need each other, by a row of ``trace_together``; empty where neither.

    Redundant places do less at once than the sum of what each is enough for, and are needed more at once than each is;
    of places that need each other it is the other way round. Signs are those of the total effect; without one nothing
    is said.
    """
    found = []
    for estimand, turn in (("sufficiency", 1.0), ("necessity", -1.0)):
        value, p = row[f"{estimand}_interaction"], row[f"p_{estimand}_adjusted"]
        if pd.notna(value) and p < LEVEL:
            found.append(DEPENDENT if turn * value > 0 else REDUNDANT)
    return found[0] if found and len(set(found)) == 1 else ""
