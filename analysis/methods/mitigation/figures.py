"""Before and after: the lean of every word beside ½, and what else changed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.methods.mitigation.measures import CORRECTED, LEAN, NAMED, PIXELS, SCENES
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import label

COSTS = {
    LEAN: "lean",
    CORRECTED: "lean, corrected",
    NAMED: "named things",
    SCENES: "unlike scenes",
    PIXELS: "unlike pixels",
}


def draw_mitigation(table: pd.DataFrame, words: Mapping[str, str]) -> Drawn | None:
    """Draw the lean of each word before and after, and the change of every share with its interval.

    Parameters
    ----------
    table : DataFrame
        See `analysis.methods.mitigation.measures.quantities`.
    words : mapping of str to str
        The word of each indicator.
    """
    leans = table[table["kind"].isin([LEAN, CORRECTED])]
    changes = table[table["kind"].isin(COSTS)]
    if not len(changes):
        return None
    rows = [
        (kind, indicator) for kind in COSTS for indicator in words if len(_rows(changes, kind, indicator))
    ]
    with style():
        figure = new_figure(DOUBLE, 0.9 + 0.2 * max(len(rows), len(leans) + 1))
        panels = figure.subplots(1, 2 if len(leans) else 1, squeeze=False)[0]
        if len(leans):
            _leans(panels[0], leans, words)
        _changes(panels[-1], changes, rows, words)
    caption = (
        "Left: share of the images whose verdict speaks for mixture component b, before (open) and after (filled), "
        "with intervals over prompts; corrected: where it stands between the readings of the words that mean one "
        "component each. Right: change of each quantity, paired by prompt and noise. Grey bands: the "
        "margin within which equivalence is tested."
    )
    return Drawn("mitigation", figure, "Before and after mitigation", caption, wide=True)


def _rows(table: pd.DataFrame, kind: str, indicator: str) -> pd.DataFrame:
    return table[(table["kind"] == kind) & (table["indicator"] == indicator)]


def _leans(axes, leans: pd.DataFrame, words: Mapping[str, str]) -> None:
    margin = float(leans["margin"].iloc[0])
    axes.axvspan(0.5 - margin, 0.5 + margin, color=FAINT, alpha=0.45, lw=0)
    axes.axvline(0.5, color=INK, lw=0.7)
    for place, row in enumerate(leans.to_dict("records")):
        for side, offset, face in (("before", -0.14, "none"), ("after", 0.14, PALETTE[0])):
            ends = [row[f"{side}_low"], row[f"{side}_high"]]
            axes.plot(ends, [place + offset] * 2, color=PALETTE[0], lw=1.4, solid_capstyle="butt")
            axes.plot(
                row[side],
                place + offset,
                "o",
                ms=4.5,
                mec=PALETTE[0],
                mfc=face if face != "none" else "white",
            )
    names = [
        label(words[name]) + (", corrected" if kind == CORRECTED else "")
        for name, kind in zip(leans["indicator"], leans["kind"])
    ]
    axes.set_yticks(range(len(leans)), names)
    axes.set_ylim(len(leans) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_title("lean, before ○ and after ●", loc="left")
    axes.set_xlabel("share of verdicts for b")
    axes.tick_params(axis="y", length=0)


def _changes(axes, changes: pd.DataFrame, rows: list[tuple[str, str]], words: Mapping[str, str]) -> None:
    margin = float(changes["margin"].dropna().iloc[0])
    axes.axvspan(-margin, margin, color=FAINT, alpha=0.45, lw=0)
    axes.axvline(0, color=INK, lw=0.7)
    reach = [-1.2 * margin, 1.2 * margin]
    kinds = list(COSTS)
    for place, (kind, indicator) in enumerate(rows):
        row = _rows(changes, kind, indicator).iloc[0]
        color = PALETTE[kinds.index(kind)]
        ends = [row["difference_low"], row["difference_high"]]
        if np.isfinite(ends).all():
            axes.plot(ends, [place, place], color=color, lw=1.4, solid_capstyle="butt")
        axes.plot(row["difference"], place, "D", ms=3.5, color=color)
        reach += [row["difference"], *ends]
    axes.set_yticks(range(len(rows)), [f"{COSTS[kind]} · {label(words[name])}" for kind, name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(*limits(reach))
    axes.set_title("change", loc="left")
    axes.set_xlabel("after − before")
    axes.tick_params(axis="y", length=0)
