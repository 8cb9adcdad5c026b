"""The headline gaps, between the indicators' words and over all words: one panel a metric, one line a contrast."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics.registry import Metric
from analysis.report.figures.style import DOUBLE, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import label, over
from analysis.report.verdict import few_prompts

ACROSS = 4  # panels in a row, so that their numbers and titles have room


def draw_headline(
    gap: pd.DataFrame,
    metrics: list[Metric],
    contrasts: list[tuple[str, str]],
    reference: str,
    unit: str = "prompt",
) -> Drawn | None:
    """Draw gap and interval of every headline metric, and beneath them those over all words in grey.

    Parameters
    ----------
    gap : DataFrame
        ``tables/gap``.
    metrics : list of Metric
        The columns to draw; those without a row in ``gap`` are left out.
    unit : {"prompt", "seed"}
        What intervals are over.
    """
    found = {metric: metric.rows_of(gap) for metric in metrics}
    found = {metric: rows for metric, rows in found.items() if not rows.empty}
    if not found or not contrasts:
        return None
    with style():
        lines = -(-len(found) // ACROSS)
        figure = new_figure(DOUBLE, 0.25 + lines * (0.7 + 0.32 * len(contrasts)))
        grid = figure.subplots(lines, -(-len(found) // lines), squeeze=False, sharey=True)
        panels = grid.ravel()
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        for axes, (metric, rows) in zip(panels, found.items()):
            reach = [0.0]
            for number, contrast in enumerate(contrasts):
                chosen = rows[rows["contrast"] == "-".join(contrast)]
                if chosen.empty:
                    continue
                row = chosen.iloc[0].to_dict()
                color = PALETTE[number % len(PALETTE)]
                for name, low, high, y, tone, marker in (
                    ("gap", "ci_low", "ci_high", number - 0.13, color, "o"),
                    ("word_gap", "word_low", "word_high", number + 0.17, PALETTE[-1], "D"),
                ):
                    if name == "word_gap" and not np.isfinite(row["p_control"]):
                        continue
                    if few_prompts(row):
                        row = row | {low: np.nan, high: np.nan}
                    if np.isfinite(row[low]):
                        axes.plot([row[low], row[high]], [y, y], color=tone, lw=1.8, solid_capstyle="butt")
                    axes.plot(row[name], y, marker, color=tone, ms=4 if marker == "o" else 3.2)
                    reach += [row[name], row[low], row[high]]
            axes.axvline(0, color=INK, lw=0.7)
            axes.set_xlim(*limits(reach, pad=0.12))
            axes.set_ylim(len(contrasts) - 0.45, -0.55)
            axes.set_title(f"{metric.symbol}" + (f" ({metric.gap_unit})" if metric.unit else ""), loc="left")
            axes.locator_params(axis="x", nbins=3)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        grid[0, 0].set_yticks(range(len(contrasts)), [_named(contrast) for contrast in contrasts])
        toward = (
            f" (right of 0: {label(reference)} nearer to {label(contrasts[0][0])})"
            if len(contrasts) == 1
            else ""
        )
        figure.supxlabel(f"gap{toward}", fontsize=8)
    caption = (
        "The gap of every headline measure with its interval, each on its own scale. Coloured circle: between the "
        f"words of the indicators, with the interval {over(unit)}. Grey diamond, where there are further words: "
        f"between all words of both sides, with the interval {over(unit, 'words and ')}, which is the one that speaks "
        "of more than these words."
    )
    return Drawn("headline", figure, "Headline gaps, and over all words", caption, wide=True)


def _named(contrast: tuple[str, str]) -> str:
    """A contrast as a label, on two lines where it is long."""
    first, second = map(label, contrast)
    return f"{first} − {second}" if len(first) + len(second) <= 24 else f"{first}\n− {second}"
