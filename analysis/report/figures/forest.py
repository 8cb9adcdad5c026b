"""Gaps of several runs, and their differences, below each other: one panel a metric."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.metrics.registry import NO_STEP, Metric
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import label

ACROSS = 4  # panels beside each other, so that titles and ticks have room


def draw_forest(
    values: pd.DataFrame,
    differences: pd.DataFrame,
    metrics: Sequence[Metric],
    contrast: tuple[str, str],
    reference: str,
) -> Drawn | None:
    """Draw the gap of every run, and below a line the difference of every two, with their intervals.

    A panel a metric, from the tables of `analysis.studies.compare.differences.compare`; gaps are positive towards the
    first of `contrast`.
    """
    gaps, disparities = (
        table[(table["kind"] == "gap") & (table["what"] == "-".join(contrast)) & (table["step"] == NO_STEP)]
        for table in (values, differences)
    )
    panels = {metric: (metric.rows_of(gaps), metric.rows_of(disparities)) for metric in metrics}
    panels = {metric: rows for metric, rows in panels.items() if len(rows[0])}
    if not panels:
        return None
    runs = list(dict.fromkeys(gaps["run"]))
    pairs = list(dict.fromkeys(zip(disparities["first"], disparities["second"])))
    labels = [*map(label, runs), *(f"{label(second)}\n− {label(first)}" for first, second in pairs)]
    with style():
        down = -(-len(panels) // ACROSS)
        figure = new_figure(DOUBLE, 0.4 + down * (0.55 + 0.28 * len(labels)))
        grid = figure.subplots(down, min(ACROSS, len(panels)), squeeze=False, sharey=True).ravel()
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes, (metric, (own, other)) in zip(grid, panels.items()):
            own, other = own.set_index("run"), other.set_index(["first", "second"])
            reach = [0.0]
            for place, key in enumerate([*runs, *pairs]):
                table, column, number = (own, "value", 0) if place < len(runs) else (other, "difference", 1)
                if key not in table.index:
                    continue
                row = table.loc[key]
                if np.isfinite(row["ci_low"]):
                    axes.plot(
                        [row["ci_low"], row["ci_high"]],
                        [place, place],
                        color=PALETTE[number],
                        lw=1.8,
                        solid_capstyle="butt",
                    )
                marker = "o" if number == 0 else "D"
                axes.plot(row[column], place, marker, color=PALETTE[number], ms=4 - 0.5 * number)
                reach += [row[column], row["ci_low"], row["ci_high"]]
            axes.axvline(0, color=INK, lw=0.7)
            axes.axhline(len(runs) - 0.5, color=FAINT, lw=0.7)
            axes.set_xlim(*limits(reach, pad=0.1))
            axes.set_ylim(len(labels) - 0.5, -0.5)
            title = metric.symbol + (f" ({metric.gap_unit})" if metric.unit else "")
            axes.set_title(textwrap.fill(title, 14, break_on_hyphens=False), loc="left")
            axes.locator_params(axis="x", nbins=2)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        grid[0].set_yticks(range(len(labels)), labels)
        figure.supxlabel(
            f"gap (right of 0: {label(reference)} nearer to {label(contrast[0])}) and its difference",
            fontsize=8,
        )
    caption = (
        f"Gap of {label(contrast[0])} against {label(contrast[1])} in every run (circles), and the difference of every "
        "two runs, paired by prompt (diamonds), with intervals over prompts. Each measure has its own scale."
    )
    return Drawn(f"forest-{'-'.join(contrast)}", figure, "Runs compared", caption, wide=True)
