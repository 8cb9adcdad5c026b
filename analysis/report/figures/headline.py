"""The headline gaps as a forest: over prompts and over words, on one scale, the distance between the two sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.metrics.registry import Metric
from analysis.report.figures.style import FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import DASH, label, number, over

WIDTH = 4.0  # inches: half of a page of the report, and a column of text on a phone
ROW = 0.27  # inches a measure
FARTHEST = 1.6  # of the distance between the sides; what reaches farther is cut, with an arrow
LONGEST = 12  # characters of the name of a side


def draw_headline(
    findings: pd.DataFrame,
    metrics: Sequence[Metric],
    contrasts: Sequence[tuple[str, str]],
    reference: str,
    unit: str = "prompt",
) -> Drawn | None:
    """Draw the gap of every headline measure as a share of the distance between the sides, over prompts and words.

    `findings` are rows of ``tables/findings``; a panel a contrast. None where there is no gap to draw.
    """
    symbols = {metric.key: metric for metric in metrics}
    table = findings[findings["gap"].notna() & findings["measure"].isin(list(symbols))]
    panels = [(pair, table[table["contrast"] == "-".join(pair)]) for pair in contrasts]
    panels = [(pair, rows) for pair, rows in panels if len(rows)]
    if not panels:
        return None
    with style():
        heights = [ROW * len(rows) + 0.7 for _, rows in panels]
        figure = new_figure(WIDTH, sum(heights) + 0.3)
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        said, near = [], False
        for axes, (pair, rows) in zip(grid, panels):
            for place, row in enumerate(rows.to_dict("records")):
                near |= not math.isfinite(row["share"])
                own, words = _shares(row)
                _draw_row(axes, place, row, own, words)
                said.append(_said(own, words, symbols[row["measure"]], unit))
            _frame(axes, rows, symbols, pair)
        figure.legend(
            handles=_marks(unit), loc="outside upper left", ncols=3, columnspacing=1.2, handlelength=1.4
        )
    caption = (
        "The gap as a share of the distance between the two sides: 0 is halfway, ±1 as near as the sides can be told "
        f"apart. Circle: between the words of the indicators, with its interval {over(unit)}. Diamond: over all words, "
        f"with its interval {over(unit, 'words and ')}; it is the one that speaks of more than these words, and its "
        "number stands at the right (without a diamond the circle’s). Grey: smaller than δ."
    )
    if near:
        caption += " *: the sides lie nearer to each other than δ, and the gap is drawn as a share of δ."
    title = f"Headline gaps: is {label(reference)} nearer to {_sides(contrasts)}?"
    return Drawn("headline", figure, title, caption, alt=f"{title} {' '.join(said)}")


def _scale(row: dict) -> float:
    """The distance between the sides, or δ where they are nearer to each other than that; NaN without either."""
    scale = row["distance"] if math.isfinite(row["share"]) else row["delta"]
    return scale if scale > 0 else math.nan


def _shares(row: dict) -> tuple[list[float], list[float]]:
    """The gap and the gap over words with their intervals, as they are drawn."""
    scale, tested = _scale(row), math.isfinite(row["p_control"])
    own = [row[name] / scale for name in ("gap", "ci_low", "ci_high")]
    words = [row[name] for name in ("word_share", "word_share_low", "word_share_high")]
    if not math.isfinite(words[0]):  # in the same unit as the gap
        words = [row[name] / scale if tested else math.nan for name in ("word_gap", "word_low", "word_high")]
    return own, words


def _draw_row(axes: Axes, place: int, row: dict, own: Sequence[float], words: Sequence[float]) -> None:
    """Draw a measure; its number is that of the diamond, or of the circle where there is no diamond."""
    half = row["delta"] / _scale(row)
    if math.isfinite(half):
        axes.barh(place, 2 * half, left=-half, height=0.86, color=FAINT, alpha=0.45, lw=0, zorder=0)
    for (middle, low, high), y, color, marker in (
        (own, place - 0.17, PALETTE[5], "o"),
        (words, place + 0.17, PALETTE[0], "D"),
    ):
        if math.isfinite(low):
            axes.plot([low, high], [y, y], color=color, lw=2, solid_capstyle="butt")
        for end in (low, middle, high):
            if abs(end) > FARTHEST:
                arrow, at = "<>"[end > 0], math.copysign(FARTHEST, end)
                axes.plot(at, y, arrow, color=color, ms=4, clip_on=False)
        if abs(middle) <= FARTHEST:
            axes.plot(middle, y, marker, color=color, ms=4.4 if marker == "o" else 3.8, mec=INK, mew=0.4)
    shown = words[0] if math.isfinite(words[0]) else own[0]
    if math.isfinite(shown):
        at = axes.get_yaxis_transform()
        axes.text(1.02, place, number(shown, 2, True), transform=at, va="center", fontsize=7.5)


def _frame(axes: Axes, rows: pd.DataFrame, symbols: dict[str, Metric], pair: tuple[str, str]) -> None:
    first, second = (label(name, LONGEST) for name in pair)
    names = [
        symbols[key].symbol + ("*" if not math.isfinite(share) else "")
        for key, share in zip(rows["measure"], rows["share"])
    ]
    axes.set_yticks(range(len(rows)), names)
    for tick, primary in zip(axes.get_yticklabels(), rows["primary"]):
        tick.set_fontweight("bold" if primary else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(-FARTHEST, FARTHEST)
    axes.axvline(0, color=INK, lw=0.8)
    for x in (-1, 1):
        axes.axvline(x, color=INK, lw=0.6, ls=(0, (1.5, 2)))
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−½", "0", "½", "1"])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.text(1.02, 1.01, "share", transform=axes.transAxes, va="bottom", fontsize=7.5)
    axes.set_xlabel(f"gap as a share of the sides’ distance\n← nearer to {second}   ·   nearer to {first} →")


def _marks(unit: str) -> list:
    def mark(marker: str, color: str, name: str) -> Line2D:
        return Line2D([], [], color=color, marker=marker, ms=4, mec=INK, mew=0.4, lw=2, label=name)

    return [
        mark("o", PALETTE[5], f"over {unit}s"),
        mark("D", PALETTE[0], "over words"),
        Patch(facecolor=FAINT, alpha=0.45, label="below δ"),
    ]


def _said(own: Sequence[float], words: Sequence[float], metric: Metric, unit: str) -> str:
    """A row as the text alternative has it."""
    shown = (number(values[0], 2, True) for values in (own, words))
    of_gap, of_words = (text if text != DASH else "not told" for text in shown)
    return f"{metric.symbol}: over {unit}s {of_gap}, over words {of_words}."


def _sides(contrasts: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{label(first)} or {label(second)}" for first, second in contrasts)
