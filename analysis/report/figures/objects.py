"""Figures on objects: bias scores with intervals (Wu et al. 2025, Figures 4, 7, 8), frequent objects (Figure 6)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, SINGLE, Drawn, new_figure, style
from analysis.report.format import label, number, over

MOST = 36  # objects: more do not fit a page and stay readable
ROW_HEIGHT = 0.15  # inches: 7.5 pt labels do not touch
LEAN = ("#B35806", "#542788")  # towards the first and the second word, as in the atlas
MARKERS = "osD^vP"
FREQUENT = 8  # objects of a group
FILLED = "the paired difference of presence is significant after adjustment over objects (Benjamini–Hochberg)"
LONGEST = 18  # characters of an object's name: three panels share a page
LONGEST_HEAD = 14  # of an indicator's, above a column


def draw_bias_scores(
    scores: pd.DataFrame,
    name: str,
    title: str,
    pair: tuple[str, str],
    where: str,
    filled: str = FILLED,
    unit: str = "prompt",
    alpha: float = 0.05,
) -> Drawn | None:
    """Draw bias scores, those that lean most to the second indicator on top; None when no object passes the filter.

    `scores` are rows of ``tables/figure04_bias_scores`` of one group and pair with ``p_objects`` of
    ``tables/object_tests``; a score of 0 is an object of images generated from prompts of the first of `pair` only, 1
    of the second. `where` names the objects ("all objects"), `filled` says what a filled mark is: ``p_objects`` is
    below `alpha`; intervals are over `unit`. ``links`` names the object of each row.
    """
    rows, middle = shown_scores(scores)
    if rows.empty:
        return None
    first, second = (label(name, LONGEST_HEAD) for name in pair)
    digits = len(str(rows[["count_first", "count_second"]].to_numpy().max()))
    columns = 4 + 4.8 * digits, 12 + 9.6 * digits  # right ends of the counts, in points beside the axes
    with style():
        figure = new_figure(SINGLE, ROW_HEIGHT * len(rows) + 1.35)
        axes = figure.add_subplot()
        beside = partial(_beside, axes)
        axes.axvline(0.5, color=INK, lw=0.7, zorder=1)
        for y, row in enumerate(rows.itertuples()):
            color = INK if row.bias_score == 0.5 else LEAN[int(row.bias_score > 0.5)]
            if np.isfinite(row.low):
                axes.plot([row.low, row.high], [y, y], color=color, lw=1.1, solid_capstyle="butt", zorder=2)
            face = color if filled_scores(row.p_objects, alpha) else "white"
            axes.plot(row.bias_score, y, "o", ms=3.8, mfc=face, mec=color, mew=0.9, zorder=3)
            for x, count in zip(columns, (row.count_first, row.count_second)):
                beside(f"{count:d}", (x, 0), y, va="center_baseline", ha="right")
            axes.axhspan(y - 0.5, y + 0.5, fc="none", ec="none", zorder=4).set_gid(f"row-{y}")
        if middle > 0:
            axes.axhline(MOST // 2 - 0.5, color=FAINT, lw=0.8, ls=(0, (4, 3)))
        for x, indicator in zip(columns, (first, second)):
            beside(indicator, (x - 3, 5), -0.5, rotation=50, rotation_mode="anchor")
        axes.set_title(where, loc="left")
        axes.set_yticks(range(len(rows)), [label(name, LONGEST) for name in rows["object"]])
        for tick, individual in zip(axes.get_yticklabels(), rows["individual"]):
            if individual:
                tick.set(color=PALETTE[-1], style="italic")
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"bias score\n← {first}   ·   {second} →")
    least = int(rows["min_count"].iloc[0])
    caption = (
        f"Bias score C({second}) / (C({first}) + C({second})) of {where}, with its interval {over(unit)}. Filled: "
        f"{filled}. Right: C, how often the object was detected in images generated from prompts of each. "
        + (
            "Persons (grey) are in, as in the paper; they are not tested, and without them the scores of the others "
            "are the same. "
            if rows["individual"].any()
            else ""
        )
        + f"Left out: objects with fewer than {least} detections for both"
        + (f"; of the rest the {middle} nearest to ½ (at the dashed line)." if middle > 0 else ".")
    )
    told = ", ".join(f"{row.object} {number(row.bias_score, 2)}" for row in rows.itertuples())
    alt = f"{title}, 0 {first}, 1 {second}: {told}."
    return Drawn(name, figure, title, caption, links=list(rows["object"]), alt=alt)


def shown_scores(scores: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the rows that are drawn, from the bottom up, and how many in the middle are left out (if above 0)."""
    rows = scores[scores["kept"] & scores["bias_score"].notna()]
    rows = rows.sort_values(["bias_score", "object"], ascending=[False, True])
    middle = len(rows) - MOST
    return (pd.concat([rows.head(MOST // 2), rows.tail(MOST - MOST // 2)]) if middle > 0 else rows), middle


def filled_scores(p_objects, alpha: float):
    """Tell which marks are filled, from an adjusted p-value or a column of them."""
    return p_objects < alpha


def _beside(axes: Axes, text: str, offset: tuple[float, float], y: float, **options) -> None:
    """Write at the right of the axes, so many points off."""
    at = axes.get_yaxis_transform()
    axes.annotate(
        text,
        (1, y),
        xycoords=at,
        xytext=offset,
        textcoords="offset points",
        fontsize=7.5,
        annotation_clip=False,
        **options,
    )


def _mark(axes: Axes, number: int, x, y, **options) -> Line2D:
    """The mark of an indicator, by its number."""
    color, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
    return axes.plot(x, y, marker, mfc="none", mew=1.0, color=color, **options)[0]


def draw_group_objects(frequent: pd.DataFrame, indicators: list[str]) -> Drawn | None:
    """Draw the most frequent objects of each dependency group, one panel per group, a marker an indicator."""
    groups = [
        (group, rows[rows["rank"] <= FREQUENT]) for group, rows in frequent.groupby("group", sort=False)
    ]
    if not groups:
        return None
    links: list[str] = []
    with style():
        figure = new_figure(DOUBLE, 0.75 + ROW_HEIGHT * 2 * FREQUENT + 0.55)
        panels = figure.subplots(2, 3).ravel()
        for axes in panels[len(groups) :]:
            axes.set_axis_off()
        for axes, (group, rows) in zip(panels, groups):
            axes.set_title(group.replace("_", " "), loc="left")
            for y, (_, row) in enumerate(rows.iterrows()):
                counts = [int(row[f"count_{name}"]) for name in indicators]
                axes.plot([0, max(counts)], [y, y], color=FAINT, lw=0.7, zorder=1)
                for at, count in enumerate(counts):
                    _mark(axes, at, count, y, ms=3.6, zorder=3, clip_on=False)
                axes.axhspan(y - 0.5, y + 0.5, fc="none", ec="none", zorder=4).set_gid(f"row-{len(links)}")
                links.append(str(row["object"]) if group != "hidden" else "")
            axes.set_yticks(range(len(rows)), [label(name, LONGEST) for name in rows["object"]])
            axes.set_ylim(FREQUENT - 0.4, -0.6)
            axes.set_xlim(left=-0.04 * axes.get_xlim()[1])
            axes.locator_params(axis="x", nbins=4, integer=True)
            axes.tick_params(axis="y", length=0, pad=5)
            axes.spines["left"].set_visible(False)
        marks = [
            _mark(panels[0], at, [], [], ms=4, label=label(name, LONGEST))
            for at, name in enumerate(indicators)
        ]
        if len(groups) < len(panels):
            panels[-1].legend(
                handles=marks,
                loc="center left",
                title="images generated\nfrom prompts with",
                alignment="left",
            )
        figure.supxlabel("detections (hidden: images without the noun’s object)", fontsize=8)
    caption = (
        f"The {FREQUENT} most frequent objects of each dependency group, by how often they were detected in the images "
        f"generated from prompts of each indicator; persons are left out. Hidden: nouns of prompts, by the images in "
        f"which no such object was detected."
    )
    title = "Most frequent objects of each dependency group"
    told = "; ".join(f"{group.replace('_', ' ')}: {', '.join(rows['object'])}" for group, rows in groups)
    return Drawn("group-objects", figure, title, caption, wide=True, links=links, alt=f"{title}. {told}.")
