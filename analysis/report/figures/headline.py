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
from analysis.report.format import defined, label, number, over

WIDTH = 4.0  # inches: half of a page of the report, and a column of text on a phone
ROW = 0.27  # inches a measure
FARTHEST = 1.6  # of the distance between the sides; what reaches farther is cut, with an arrow
LONGEST = 12  # characters of the name of a side
OWN, WORDS = ["gap", "ci_low", "ci_high"], ["word_gap", "word_low", "word_high"]
KINDS = ((OWN, -0.17, PALETTE[5], "o", 4.4), (WORDS, 0.17, PALETTE[0], "D", 3.8))


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
    symbols = {metric.key: metric.symbol for metric in metrics}
    table = _as_shares(findings[findings["gap"].notna() & findings["measure"].isin(list(symbols))])
    table = table.assign(symbol=table["measure"].map(symbols))
    panels = [(pair, table[table["contrast"] == "-".join(pair)]) for pair in contrasts]
    panels = [(pair, rows) for pair, rows in panels if len(rows)]
    if not panels:
        return None
    with style():
        heights = [ROW * len(rows) + 0.7 for _, rows in panels]
        figure = new_figure(WIDTH, sum(heights) + 0.3)
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (pair, rows) in zip(grid, panels):
            _draw_panel(axes, rows, pair)
        marks = [
            Line2D(
                [], [], color=color, marker=marker, ms=4, mec=INK, mew=0.4, lw=2, label=f"over {over_what}"
            )
            for (_, _, color, marker, _), over_what in zip(KINDS, (f"{unit}s", "words"))
        ]
        marks.append(Patch(facecolor=FAINT, alpha=0.45, label="below δ"))
        figure.legend(handles=marks, loc="outside upper left", ncols=3, columnspacing=1.2, handlelength=1.4)
    caption = (
        "The gap as a share of the distance between the two sides: 0 is halfway, ±1 as near as the sides can be told "
        f"apart. Circle: between the words of the indicators, with its interval {over(unit)}. Diamond: over all words, "
        f"with its interval {over(unit, 'words and ')}; it is the one that speaks of more than these words, and its "
        "number stands at the right (without a diamond the circle’s). Grey: smaller than δ."
    )
    if table["near"].any():
        caption += " *: the sides lie nearer to each other than δ, and the gap is drawn as a share of δ."
    sides = "; ".join(f"{label(first)} or {label(second)}" for first, second in contrasts)
    title = f"Headline gaps: is {label(reference)} nearer to {sides}?"
    rows = pd.concat([rows for _, rows in panels]).to_dict("records")
    said = [
        f"{row['symbol']}: over {unit}s {_told(row['gap'])}, over words {_told(row['word_gap'])}."
        for row in rows
    ]
    return Drawn("headline", figure, title, caption, alt=f"{title} {' '.join(said)}")


def _as_shares(table: pd.DataFrame) -> pd.DataFrame:
    """The gaps as they are drawn: of the distance between the sides, or of δ where they lie ``near`` each other."""
    near = table["share"].isna()
    scale = table["distance"].mask(near, table["delta"])
    scale, own = scale.where(scale > 0), {"near": near, "delta": table["delta"] / scale.where(scale > 0)}
    for gap, word, share in zip(OWN, WORDS, ("word_share", "word_share_low", "word_share_high")):
        in_unit_of_gap = table[word].where(table["p_control"].notna()) / scale
        own |= {gap: table[gap] / scale, word: table[share].mask(table["word_share"].isna(), in_unit_of_gap)}
    return table.assign(**own)


def _told(share: float) -> str:
    return number(share, 2, True) if defined(share) else "not told"


def _draw_panel(axes: Axes, rows: pd.DataFrame, pair: tuple[str, str]) -> None:
    """Draw the measures of a contrast, each with the number of the diamond, or of the circle where there is none."""
    first, second = (label(name, LONGEST) for name in pair)
    axes.barh(
        range(len(rows)), 2 * rows["delta"], left=-rows["delta"], height=0.86, color=FAINT, alpha=0.45, lw=0
    )
    for columns, offset, color, marker, size in KINDS:
        for place, (middle, low, high) in enumerate(rows[columns].to_numpy(float)):
            y = place + offset
            axes.plot([low, high], [y, y], color=color, lw=2, solid_capstyle="butt")
            for end in (low, middle, high):
                if abs(end) > FARTHEST:
                    arrow, at = "<>"[int(end > 0)], math.copysign(FARTHEST, end)
                    axes.plot(at, y, arrow, color=color, ms=4, clip_on=False)
            if abs(middle) <= FARTHEST:
                axes.plot(middle, y, marker, color=color, ms=size, mec=INK, mew=0.4)
    for place, shown in enumerate(rows["word_gap"].fillna(rows["gap"])):
        text = number(shown, 2, True) if defined(shown) else ""
        axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)
    axes.set_yticks(range(len(rows)), rows["symbol"] + rows["near"].map({True: "*", False: ""}))
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
