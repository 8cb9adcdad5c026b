"""Figures of an audit of professions: averages beside what chance gives, tones in their colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.methods.dalleval.names import named, profession
from analysis.methods.dalleval.page_tests import even_refuted, gender_rows, said_rows
from analysis.methods.dalleval.scores import GENDER, TONE, TONES
from analysis.metrics.skin_tone import MONK
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label
from analysis.study import comparison
from analysis.tables.spec import Measured
from probes.prompts.diagnostic import ALL

ROW, DEEPEST = 0.17, 8.2  # inches of a row, and of all rows: a figure fits a page
MARGIN = 0.14  # inches beside names, which constrained layout measures a little short


def _rows(names: Sequence[str], beside: float) -> tuple[Figure, Axes]:
    """A figure with a row for each name, the first at the bottom."""
    deep = min(ROW * len(names), DEEPEST)
    figure = new_figure(DOUBLE, beside + deep)
    figure.get_layout_engine().set(w_pad=MARGIN)
    axes = figure.subplots()
    size = min(7.5, 65 * deep / len(names))  # points: nine tenths of a row's 72 an inch
    axes.set_yticks(range(len(names)), [label(profession(name)) for name in names], size=size)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return figure, axes


def draw_gender(shown: Measured) -> Drawn | None:
    """Draw the average gender of each profession with its interval, and how far from 0 chance alone gets.

    The reference has intervals and orders the rows; dots are filled only where the professions together deviate from
    half and half.
    """
    table, mad, alpha = shown.rows("dalleval_professions"), shown.rows("dalleval_mad"), shown.words["alpha"]
    reference = shown.config.reference
    others = [name for name in comparison(shown.config).main if name != reference]
    main = gender_rows(table, reference)
    if main.empty:
        return None
    floors = said_rows(mad, reference).query("question == @GENDER")["floor"]
    even = 2 * floors.max()  # the MAD is half the distance from 0
    filled = even_refuted(mad, reference, alpha) & (main["p_adjusted"] < alpha)
    places = np.arange(len(main))
    with style():
        figure, axes = _rows(main["profession"], 0.9)
        if even == even:
            axes.axvspan(-even, even, color=FAINT, alpha=0.55, lw=0)
        for place, word in enumerate(others, 1):
            values = gender_rows(table, word).set_index("profession")["average"].reindex(main["profession"])
            axes.plot(values, places, "|", color=PALETTE[place], ms=7, mew=1.5, clip_on=False)
        axes.hlines(places, main["low"], main["high"], color=PALETTE[0], lw=1.3)
        faces = np.where(filled, PALETTE[0], "white")
        axes.scatter(main["average"], places, 16, faces, edgecolors=PALETTE[0], clip_on=False, zorder=3)
        for place in places[main["average"].isna()]:
            axes.text(0.02, place, "no images", va="center", fontsize=6.5)
        axes.axvline(0, color=INK, lw=0.6)
        axes.set_xlim(-1.04, 1.04)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−0.5", "0", "0.5", "1"])
        handles = [
            Line2D([], [], color=PALETTE[0], marker="o", ms=4, label=label(reference)),
            *(
                Line2D([], [], color=PALETTE[i], marker="|", ms=7, mew=1.5, ls="", label=label(word))
                for i, word in enumerate(others, 1)
            ),
            Patch(color=FAINT, alpha=0.55, lw=0, label="by chance, on average"),
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
        figure.supxlabel("average gender: images read as male −1, as female +1", fontsize=8)
    caption = (
        f"Average gender of images generated from {label(reference)} prompts of each profession, read by "
        f"{named(shown.words[GENDER])}, with intervals over images; a filled dot: not half and half (exact binomial "
        f"test, adjusted p < {alpha:g}), where all together deviate by more than chance. Grey: how far from 0 chance "
        "alone gets on average with so many images. Ticks: other words."
    )
    return Drawn("dalleval-professions", figure, "Average gender by profession", caption, wide=True)


def draw_tones(shown: Measured) -> Drawn | None:
    """Draw the share of each Monk tone in the images of each profession, in the tones' colours (Figure 9)."""
    rows = shown.rows("dalleval_distribution", "question == 'tone' and source == @tone and indicator == @ALL")
    if rows.empty:
        return None
    counts = rows.drop_duplicates("profession").set_index("profession")["decided"]
    shares = rows.pivot(index="profession", columns="category", values="share")
    mean = (shares * shares.columns).sum(axis=1, min_count=1)
    order = [ALL, *mean.drop(ALL).sort_values(kind="stable").index][::-1]  # the lightest on top
    shares = shares.loc[order].fillna(0)
    left, places = shares.cumsum(axis=1) - shares, np.arange(len(order))
    with style():
        figure, axes = _rows(["all professions" if name == ALL else name for name in order], 0.95)
        for tone, colour in enumerate(MONK, 1):
            bars = {"left": left[tone], "height": 0.78, "color": colour, "edgecolor": INK}
            axes.barh(places, shares[tone], lw=0.3 * (shares[tone] > 0), **bars)
        for place, count in zip(places, counts[order]):
            axes.text(1.015, place, f"{int(count)}", va="center", fontsize=6.5)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        handles = [
            Patch(facecolor=colour, edgecolor=INK, lw=0.4, label=str(tone))
            for tone, colour in enumerate(MONK, 1)
        ]
        options = {"handlelength": 1, "columnspacing": 0.9, "title_fontsize": 7.5, "alignment": "right"}
        figure.legend(handles=handles, loc="outside upper right", ncols=TONES, title="Monk tone", **options)
        figure.supxlabel("share of the images with a tone", fontsize=8)
    caption = (
        f"Tones of the images generated from the prompts of each profession, all words together, by "
        f"{named(shown.words[TONE])}: the share of each tone of the Monk scale, in its colour; on the right the images "
        "that have one. Rows by their average, light to dark. Frequencies of what was drawn, not of anybody."
    )
    return Drawn("dalleval-distribution", figure, "Tones by profession", caption, wide=True)
