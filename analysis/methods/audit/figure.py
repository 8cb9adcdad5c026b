"""The figure of an audit: shares as dots with intervals, a panel for each model."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.methods.audit.design import Design
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label, listed

PANELS = 4  # models beside each other
ROW = 0.17  # inches of a dot
SPREAD = 0.7  # of a level's height that its dots take


def draw_shares(shares: pd.DataFrame, design: Design) -> Drawn:
    """The share of every cell with its interval; filled where it differs significantly from its reference."""
    models, levels = design.levels["model"], design.levels[design.by]
    names = (
        shares[list(design.others)].agg(", ".join, axis=1) if design.others else pd.Series("", shares.index)
    )
    settings = list(dict.fromkeys(names))
    references, places = [design.reference[level] for level in levels], np.arange(len(levels))
    across = min(len(models), PANELS)
    down = -(-len(models) // across)
    with style():
        figure = new_figure(DOUBLE, 0.75 + down * (0.35 + ROW * len(levels) * max(1.4, len(settings))))
        panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for axes, model in zip(panels.ravel(), models):
            axes.set_title(label(model), loc="left")
            of_model = shares["model"] == model
            for number, setting in enumerate(settings):
                shift = SPREAD * ((number + 0.5) / len(settings) - 0.5)
                _dots(
                    axes, shares[of_model & (names == setting)], design, PALETTE[number % len(PALETTE)], shift
                )
            axes.vlines(references, places - 0.5, places + 0.5, color=INK, lw=0.7, ls=(0, (2, 2)))
        for axes in panels.ravel()[len(models) :]:
            axes.set_visible(False)
        panels[0, 0].set_xlim(-0.03, 1.03)
        panels[0, 0].set_ylim(len(levels) - 0.5, -0.5)
        panels[0, 0].set_yticks(range(len(levels)), [label(level) for level in levels])
        if len(settings) > 1:
            colors = zip(settings, PALETTE * len(settings))
            handles = [
                Line2D([], [], color=color, marker="o", ms=4, label=label(one)) for one, color in colors
            ]
            figure.legend(handles=handles, loc="outside upper center", ncols=min(4, len(settings)))
        figure.supxlabel(f"share of {design.answer} among the decided pictures", fontsize=8)
    caption = (
        f"Share of {design.answer} by {listed(['model', *design.factors])}, with {100 * design.level:g} % intervals"
        f" (Wilson). Dashed: {design.against}. Filled dots are shown to differ from it, all tests of the page"
        " adjusted for one another."
    )
    return Drawn("audit-shares", figure, f"Shares of {design.answer}", caption, wide=True)


def _dots(axes: Axes, rows: pd.DataFrame, design: Design, color: str, shift: float) -> None:
    levels = design.levels[design.by]
    for row in rows[rows["share"].notna()].to_dict("records"):
        y = levels.index(row[design.by]) + shift
        axes.plot([row["low"], row["high"]], [y, y], color=color, lw=1.4, solid_capstyle="butt")
        face = color if row["p_adjusted"] <= design.alpha else "white"
        axes.plot(row["share"], y, "o", color=color, mfc=face, ms=4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_color(FAINT)
