"""The gap of every prompt as a dot: how far the prompts of a run say the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from analysis.metrics.registry import Metric
from analysis.report.figures.style import INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import counted, label, number

WIDTH = 4.6  # inches
MOST = 40  # prompts that are named: of more the dots stand in order, without names
LONGEST = 38  # characters of a prompt
LEAN = ("#542788", "#B35806")  # towards the first and the second side, as in the atlas


def draw_prompts(
    gaps: pd.DataFrame,
    names: Mapping[int, str],
    metric: Metric,
    contrast: tuple[str, str],
    reference: str,
    unit: str = "prompt",
    shown: Collection[int] = (),
) -> Drawn | None:
    """Draw the gap of every prompt, from the one nearest to the second side to the one nearest to the first.

    Triplets in `shown` are ringed. None for fewer than two dots.
    """
    rows = gaps[gaps["gap"].notna()].sort_values("gap", kind="stable")
    if len(rows) < 2:
        return None
    values, count = rows["gap"].to_numpy(float), len(rows)
    named, first, second = count <= MOST, *map(label, contrast)
    with style():
        figure = new_figure(WIDTH, 0.75 + (0.16 * count if named else 2.9))
        axes = figure.add_subplot()
        places = np.arange(count)
        if named:
            axes.hlines(places, 0, values, color=INK, lw=0.5, alpha=0.35)
        color = np.where(values > 0, *LEAN)
        axes.scatter(values, places, s=16 if named else 6, c=color, lw=0, zorder=3)
        ringed = rows["triplet"].isin(list(shown)).to_numpy() & (unit == "prompt")
        axes.scatter(values[ringed], places[ringed], s=52, fc="none", ec=INK, lw=0.9, zorder=4)
        axes.axvline(0, color=INK, lw=0.8)
        mean = values.mean()
        axes.axvline(mean, color=PALETTE[0], lw=1.1, ls=(0, (4, 2)))
        axes.annotate(
            "mean",
            (mean, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3 if mean >= 0 else -3, 2),
            textcoords="offset points",
            ha="left" if mean >= 0 else "right",
            color=PALETTE[0],
            fontsize=7.5,
        )
        if unit == "seed":
            names_of = [f"seed {seed}" for seed in rows["seed"]]
        else:
            names_of = [label(names[int(triplet)], LONGEST) for triplet in rows["triplet"]]
        axes.set_yticks(places if named else [], names_of if named else [], fontsize=7.5)
        if not named:
            axes.set_ylabel(f"{count:,} {unit}s, in order of their gap")
        axes.set_ylim(-0.7, count - 0.3)
        axes.set_xlim(*limits([0.0, *values], pad=0.06))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        of = f" ({metric.gap_unit})" if metric.unit else ""
        figure.supxlabel(
            f"{metric.symbol} gap{of}: ← nearer to {second}   ·   nearer to {first} →", fontsize=8
        )
    above = int((values > 0).sum())
    caption = (
        f"The gap of every {unit} by {metric.symbol}: {above} of {counted(count, unit)} above 0, nearer to {first}. "
        f"One {unit}’s gap is no finding."
    )
    if ringed.any():
        caption += " Ringed: the triplets above."
    title = f"Gap of every {unit} by {metric.symbol}"
    alt = (
        f"{title}: from {number(values[0], metric.digits, True)} to {number(values[-1], metric.digits, True)}, "
        f"{above} of {count} above 0, nearer to {first}."
    )
    return Drawn(f"{unit}s-{'-'.join(contrast)}", figure, title, caption, alt=alt)
