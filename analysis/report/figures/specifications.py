"""The specification curve: the gap over words under every choice of words, reference words, seeds and readout."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.metrics.registry import Metric
from analysis.report.figures.style import FAINT, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import label, over

WIDTH = 4.6  # inches: half of a page of the report
MOST = 40  # rows; of more the middle ones are left out


def draw_specifications(
    specifications: pd.DataFrame,
    metric: Metric,
    contrast: tuple[str, str],
    reference: str,
    unit: str = "prompt",
) -> Drawn | None:
    """Draw the gap over words of one measure and contrast with its interval, one row per specification.

    Rows are sorted by gap; None where there is no specification but the run's own.

    Source: Simonsohn, Simmons and Nelson 2020.
    """
    rows = metric.rows_of(specifications[specifications["contrast"] == "-".join(contrast)])
    rows = rows[rows["gap"].notna()].sort_values("gap", kind="stable")
    if len(rows) < 2:
        return None
    count = len(rows)
    if count > MOST:
        ends = [*range(MOST // 2), *range(len(rows) - MOST // 2, len(rows))]
        of_run = [*np.flatnonzero(rows["of_run"].to_numpy(bool))]
        rows = rows.iloc[sorted({*ends, *of_run})]
    with style():
        figure = new_figure(WIDTH, 0.75 + 0.17 * len(rows))
        axes = figure.add_subplot()
        for place, row in enumerate(rows.to_dict("records")):
            color = PALETTE[0] if row["of_run"] else PALETTE[-1]
            if np.isfinite(row["low"]):
                axes.plot(
                    [row["low"], row["high"]], [place, place], color=color, lw=1.8, solid_capstyle="butt"
                )
            axes.plot(
                row["gap"], place, "o" if row["of_run"] else "D", color=color, ms=4 if row["of_run"] else 3.2
            )
        gaps = rows["gap"].to_numpy(float)
        axes.axvspan(gaps.min(), gaps.max(), color=FAINT, alpha=0.35, lw=0, zorder=0)
        axes.axvline(0, color=INK, lw=0.7)
        axes.set_xlim(*limits([0.0, *gaps, *rows["low"], *rows["high"]], pad=0.06))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [str(name) for name in rows["specification"]])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        first = label(contrast[0])
        unit_of = f" ({metric.gap_unit})" if metric.unit else ""
        figure.supxlabel(
            f"{metric.symbol}, gap over words{unit_of}\n(right of 0: {label(reference)} nearer to {first})",
            fontsize=8,
        )
    caption = (
        f"The gap over words of {metric.symbol} with its interval {over(unit, 'words and ')}: as run (blue circle), "
        "and with one word, reference word or seed left out, or another readout of the text. Shaded: the range of the "
        "estimates. They share nearly all their data, so how many leave out 0 is no evidence; how far they lie apart "
        "is what one choice can do."
    )
    if count > len(rows):
        caption += f" The {count - len(rows)} in the middle are left out."
    name = f"specifications-{'-'.join(contrast)}"
    return Drawn(name, figure, "Specification curve", caption)
