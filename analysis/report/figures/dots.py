"""Dots below each other, one row a name: any table with a number, an interval and a series."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.report.figures.style import FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import counted, label
from probes.errors import UserError

MOST = 60  # rows that fit a page
ROW = 0.15  # inches: 7.5 pt labels do not touch
WIDTH = 5.2  # inches


def draw_dots(
    name: str,
    title: str,
    caption: str,
    table: pd.DataFrame,
    axis: str,
    *,
    lines: Sequence[float] = (),
    ticks: Sequence[str] = (),
    log: bool = False,
    most: int = MOST,
    noun: str = "row",
) -> Drawn:
    """Draw the rows of a table as dots; what does not fit is counted in the caption, and UserError without a number.

    Parameters
    ----------
    table : DataFrame
        ``label`` and ``value``; where there are any: ``low``, ``high`` (the ends of an interval), ``series`` (a colour
        each), ``filled`` (whether the dot is; all are, by default). Rows of a label share a line.
    axis : str
        What the values are.
    lines : sequence of float
        Where a vertical line stands, such as at 0.
    ticks : sequence of str
        Names of the values 0, 1, …
    log : bool
        Whether the axis is logarithmic.
    most : int
        Labels that are drawn: those with the largest absolute values, in the order of the table.
    noun : str
        Of a label, for the caption.
    """
    table = table[np.isfinite(table["value"].astype(float))]
    if table.empty:
        raise UserError(f"{title}: expected a number to draw, found none")
    sizes = table["value"].abs().groupby(table["label"], sort=False).max()
    kept = sizes.index[np.sort(np.argsort(-sizes.to_numpy(), kind="stable")[:most])]
    if left := len(sizes) - len(kept):
        title = f"{title} ({len(kept)} of {counted(len(sizes), noun)})"
        caption += f" Left out: {counted(left, noun)} with smaller absolute values."
    table = table[table["label"].isin(kept)].assign(y=lambda rows: rows["label"].map(list(kept).index))
    series = table["series"] if "series" in table else pd.Series("", table.index)
    names = list(dict.fromkeys(series))
    with style():
        figure = new_figure(WIDTH, ROW * len(kept) * max(1, len(names) / 3) + 0.95)
        axes = figure.add_subplot()
        for number, (one, color) in enumerate(zip(names, PALETTE * len(names))):
            rows = table[series == one]
            y = rows["y"] + 0.22 * (number - (len(names) - 1) / 2)
            if "low" in table:
                axes.hlines(y, rows["low"], rows["high"], color=color, lw=1.2)
            filled = rows["filled"] if "filled" in table else pd.Series(True, rows.index)
            for chosen, face in ((filled, color), (~filled, "white")):
                axes.plot(rows["value"][chosen], y[chosen], "o", ms=3.6, mfc=face, mec=color, mew=0.9)
            axes.plot([], [], "o", ms=3.6, color=color, label=label(one))
        for x in lines:
            axes.axvline(x, color=INK, lw=0.6, zorder=0)
        axes.set_yticks(range(len(kept)), [label(one, 60) for one in kept])
        axes.set_ylim(len(kept) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color=FAINT, lw=0.4, zorder=0)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.xaxis.set_minor_formatter("")
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_xlim(-0.4, len(ticks) - 0.6)
        axes.set_xlabel(axis)
        axes.set_title(title, loc="left")
        if len(names) > 1:
            figure.legend(loc="outside lower center", ncols=min(len(names), 4))
    return Drawn(name, figure, title, caption, wide=True)
