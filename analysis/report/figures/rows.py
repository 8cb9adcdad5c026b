"""Values below each other with their intervals: gaps of runs, of choices of words, of prompts."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.metrics.registry import NO_STEP, Metric
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import counted, label, number, over

ACROSS = 4  # panels beside each other, so that titles and ticks have room
WIDTH = 4.6  # inches: half of a page of the report
MOST = 40  # rows that are named
LONGEST = 38  # characters of a prompt
MARKS = ((PALETTE[0], "o"), (PALETTE[1], "D"))


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
    gaps, between = (
        table[(table["kind"] == "gap") & (table["what"] == "-".join(contrast)) & (table["step"] == NO_STEP)]
        for table in (values, differences)
    )
    gaps = gaps.assign(name=gaps["run"], diamond=False)
    named = between["second"] + "\n− " + between["first"]
    between = between.assign(name=named, value=between["difference"], diamond=True)
    panels = {metric: metric.rows_of(pd.concat([gaps, between])) for metric in metrics}
    panels = {metric: rows for metric, rows in panels.items() if not rows["diamond"].all()}
    if not panels:
        return None
    names = [*dict.fromkeys(gaps["name"]), *dict.fromkeys(between["name"])]
    with style():
        down = -(-len(panels) // ACROSS)
        figure = new_figure(DOUBLE, 0.4 + down * (0.55 + 0.28 * len(names)))
        grid = figure.subplots(down, min(ACROSS, len(panels)), squeeze=False, sharey=True).ravel()
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for axes, (metric, rows) in zip(grid, panels.items()):
            shown = rows.rename(columns={"ci_low": "low", "ci_high": "high"}).set_index("name").reindex(names)
            labels = ["\n".join(map(label, name.split("\n"))) for name in names]
            _intervals(axes, shown.assign(name=labels).reset_index(drop=True))
            axes.axhline(gaps["name"].nunique() - 0.5, color=FAINT, lw=0.7)
            title = metric.symbol + (f" ({metric.gap_unit})" if metric.unit else "")
            axes.set_title(textwrap.fill(title, 14, break_on_hyphens=False), loc="left")
            axes.locator_params(axis="x", nbins=2)
        figure.supxlabel(
            f"gap (right of 0: {label(reference)} nearer to {label(contrast[0])}) and its difference",
            fontsize=8,
        )
    caption = (
        f"Gap of {label(contrast[0])} against {label(contrast[1])} in every run (circles), and the difference of every "
        "two runs, paired by prompt (diamonds), with intervals over prompts. Each measure has its own scale."
    )
    shown = ((metric, row) for metric, rows in panels.items() for row in rows.itertuples() if not row.diamond)
    told = [
        f"{metric.symbol} in {label(row.name)} {number(row.value, metric.digits, True)}"
        for metric, row in shown
    ]
    alt = f"Runs compared. Gaps: {', '.join(told)}."
    return Drawn(f"forest-{'-'.join(contrast)}", figure, "Runs compared", caption, wide=True, alt=alt)


def draw_specifications(
    specifications: pd.DataFrame,
    metric: Metric,
    contrast: tuple[str, str],
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
    rows = rows.assign(name=rows["specification"], value=rows["gap"], diamond=~rows["of_run"].astype(bool))
    ends = np.r_[: MOST // 2, len(rows) - MOST // 2 : len(rows)]
    shown = rows.iloc[np.union1d(ends, np.flatnonzero(~rows["diamond"]))] if len(rows) > MOST else rows
    figure, axes = _one_panel(shown, f"{metric.symbol}, gap over words", metric, contrast)
    axes.axvspan(shown["gap"].min(), shown["gap"].max(), color=FAINT, alpha=0.35, lw=0, zorder=0)
    caption = (
        f"The gap over words of {metric.symbol} with its interval {over(unit, 'words and ')}: as run (blue circle), "
        "and with one word, reference word or seed left out, or another readout of the text. Shaded: the range of the "
        "estimates. They share nearly all their data, so how many leave out 0 is no evidence; how far they lie apart "
        "is what one choice can do."
    )
    if len(rows) > len(shown):
        caption += f" The {len(rows) - len(shown)} in the middle are left out."
    low, high = (number(rows["gap"].iloc[end], metric.digits, True) for end in (0, -1))
    alt = f"Specification curve: {len(rows)} estimates of {metric.symbol}, from {low} to {high}."
    return Drawn(f"specifications-{'-'.join(contrast)}", figure, "Specification curve", caption, alt=alt)


def draw_prompts(
    gaps: pd.DataFrame,
    names: Mapping[int, str],
    metric: Metric,
    contrast: tuple[str, str],
    unit: str = "prompt",
    shown: Collection[int] = (),
) -> Drawn | None:
    """Draw the gap of every prompt, the one nearest to the first side on top.

    Triplets in `shown` are ringed. None for fewer than two prompts.
    """
    rows = gaps[gaps["gap"].notna()].sort_values("gap", ascending=False, kind="stable", ignore_index=True)
    if len(rows) < 2:
        return None
    rows = rows.assign(value=rows["gap"], low=np.nan, high=np.nan, diamond=False)
    rows["name"] = rows["triplet"].map(names).map(lambda name: label(name, LONGEST))
    if unit == "seed":
        rows["name"] = "seed " + rows["seed"].astype(str)
    figure, axes = _one_panel(rows, f"{metric.symbol} gap", metric, contrast)
    mean, first = rows["gap"].mean(), label(contrast[0])
    axes.axvline(mean, color=PALETTE[0], lw=1.1, ls=(0, (4, 2)))
    ringed = rows[rows["triplet"].isin(list(shown)) & (unit == "prompt")]
    axes.scatter(ringed["gap"], ringed.index, s=52, fc="none", ec=INK, lw=0.9, zorder=4)
    above, title = int((rows["gap"] > 0).sum()), f"Gap of every {unit} by {metric.symbol}"
    caption = (
        f"The gap of every {unit} by {metric.symbol}: {above} of {counted(len(rows), unit)} above 0, nearer to "
        f"{first}. Dashed: their mean. One {unit}’s gap is no finding."
    )
    if len(ringed):
        caption += " Ringed: the triplets above."
    low, high = (number(rows["gap"].iloc[end], metric.digits, True) for end in (-1, 0))
    alt = f"{title}: from {low} to {high}, {above} of {len(rows)} above 0, nearer to {first}."
    return Drawn(f"{unit}s-{'-'.join(contrast)}", figure, title, caption, alt=alt)


def _one_panel(rows: pd.DataFrame, what: str, metric: Metric, contrast: tuple[str, str]):
    """A figure of one panel, whose rows have names where they are few, and its axes."""
    first, second = map(label, contrast)
    named = len(rows) <= MOST + 1
    with style():
        figure = new_figure(WIDTH, 0.75 + (0.16 * len(rows) if named else 2.9))
        axes = figure.add_subplot()
        _intervals(axes, rows.reset_index(drop=True))
        if not named:
            axes.set_yticks([])
            axes.set_ylabel(f"{len(rows):,}, in order of their gap")
        of = f" ({metric.gap_unit})" if metric.unit else ""
        figure.supxlabel(f"{what}{of}: ← nearer to {second}   ·   nearer to {first} →", fontsize=8)
    return figure, axes


def _intervals(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the ``value`` of each row with its ``low`` and ``high``, as a circle or a ``diamond``."""
    for diamond, own in rows.groupby("diamond"):
        color, marker = MARKS[int(diamond)]
        axes.hlines(own.index, own["low"], own["high"], color=color, lw=1.8)
        axes.plot(own["value"], own.index, marker, color=color, ms=4 - 0.5 * diamond)
    axes.axvline(0, color=INK, lw=0.7)
    axes.set_xlim(*limits([0.0, *rows["value"], *rows["low"], *rows["high"]], pad=0.08))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), rows["name"])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
