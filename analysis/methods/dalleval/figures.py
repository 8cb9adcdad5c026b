"""Figures of an audit of professions: averages beside what chance gives, tones in their colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.methods.dalleval.names import named, profession
from analysis.methods.dalleval.page_tests import even_refuted, gender_rows, not_even
from analysis.methods.dalleval.scores import GENDER, TONE, TONES
from analysis.methods.dalleval.tables import ALL
from analysis.metrics.skin_tone import MONK
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label
from analysis.study import comparison
from analysis.tables.spec import Measured

COLUMN = 44  # professions above each other; more stand in two columns
ROW = 0.17  # inches
MARGIN = 0.14  # inches beside names, which constrained layout measures a little short


def _columns(rows: int, beside: float) -> tuple[Figure, Sequence[Axes], int]:
    """A figure with a column of so many rows, or two, its panels and the rows of each."""
    columns = 2 if rows > COLUMN else 1
    deep = -(-rows // columns)
    figure = new_figure(DOUBLE, beside + ROW * deep)
    figure.get_layout_engine().set(w_pad=MARGIN)
    return figure, figure.subplots(1, columns, squeeze=False)[0], deep


def draw_gender(shown: Measured) -> Drawn | None:
    """Draw the average gender of each profession with its interval, and how far from 0 chance alone gets.

    The reference has intervals and orders the rows; dots are filled only where the professions together deviate from
    half and half.
    """
    table, source, alpha = shown.rows("dalleval_professions"), shown.words[GENDER], shown.words["alpha"]
    reference = shown.config.reference
    others = [name for name in comparison(shown.config).main if name != reference]
    main = gender_rows(table, reference)
    if main.empty:
        return None
    even = 2 * shown.words["floor"]  # of the MAD, which is half the distance from 0
    filled = not_even(main, even_refuted(shown.rows("dalleval_mad"), reference, alpha), alpha)
    with style():
        figure, panels, deep = _columns(len(main), 0.9)
        for number, axes in enumerate(panels):  # the highest on top of the first column
            part = slice(max(len(main) - (number + 1) * deep, 0), len(main) - number * deep)
            rows = main.iloc[part]
            places = np.arange(len(rows)) + deep - len(rows)
            if even == even:
                axes.axvspan(-even, even, color=FAINT, alpha=0.55, lw=0)
            for place, word in enumerate(others, 1):
                values = gender_rows(table, word).set_index("profession")["average"]
                values = values.reindex(rows["profession"])
                axes.plot(values, places, "|", color=PALETTE[place], ms=7, mew=1.5, clip_on=False)
            axes.hlines(places, rows["low"], rows["high"], color=PALETTE[0], lw=1.3)
            faces = np.where(filled[part], PALETTE[0], "white")
            axes.scatter(rows["average"], places, 16, faces, edgecolors=PALETTE[0], clip_on=False, zorder=3)
            for place in places[rows["average"].isna()]:
                axes.text(0.02, place, "no images", va="center", fontsize=6.5)
            _name_rows(axes, rows["profession"], places, deep)
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
        f"{named(source)}, with intervals over images; a filled dot: not half and half (exact binomial test, adjusted "
        f"p < {alpha:g}), where all together deviate by more than chance. Grey: how far from 0 chance alone gets on "
        "average with so many images. Ticks: other words."
    )
    return Drawn("dalleval-professions", figure, "Average gender by profession", caption, wide=True)


def _name_rows(axes: Axes, names: Sequence[str], places: np.ndarray, deep: int) -> None:
    axes.set_yticks(places, [label(profession(name)) for name in names])
    axes.set_ylim(-0.6, deep - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def draw_tones(shown: Measured) -> Drawn | None:
    """Draw the share of each Monk tone in the images of each profession, in the tones' colours (Figure 9)."""
    source = shown.words[TONE]
    own = shown.rows("dalleval_distribution", "question == 'tone' and source == @tone and indicator == @ALL")
    if own.empty:
        return None
    caption = (
        f"Tones of the images generated from the prompts of each profession, all words together, by {named(source)}: "
        "the share of each tone of the Monk scale, in its colour; on the right the images that have one. Rows by their "
        "average, light to dark. Frequencies of what was drawn, not of anybody."
    )
    figure = _tones(own, "profession", "all professions")
    return Drawn("dalleval-distribution", figure, "Tones by profession", caption, wide=True)


def draw_attribute_tones(shown: Measured) -> Drawn | None:
    """Draw the share of each Monk tone in the images in which an attribute is read (DALL-Eval, Figure 8)."""
    reader = shown.words["attributes"]
    own = shown.rows("dalleval_attribute_tones", "source == @tone and reader == @attributes")
    if not own["decided"].any():
        return None
    caption = (
        f"Tones of the images in which an attribute is read by {named(reader)}, all professions and words together; "
        f"tones by {named(shown.words[TONE])}, in their colours; on the right the images that have one. Rows by their "
        "average, light to dark. Frequencies of what was drawn, not of anybody."
    )
    figure = _tones(own, "attribute", "all images")
    return Drawn("dalleval-attribute-tones", figure, "Tones by attribute", caption, wide=True)


def _tones(rows: pd.DataFrame, axis: str, of_all: str) -> Figure:
    """Bars of tones, rows by their average; the row of all comes first and is called by what it is of."""
    counts = rows.drop_duplicates(axis).set_index(axis)["decided"]
    shares = rows.pivot(index=axis, columns="category", values="share")
    mean = (shares * shares.columns).sum(axis=1, min_count=1)
    order = [ALL, *mean.drop(ALL).sort_values(kind="stable", na_position="last").index]
    with style():
        figure, panels, deep = _columns(len(order), 0.95)
        for number, axes in enumerate(panels):
            names = order[number * deep : (number + 1) * deep]
            places = deep - 1 - np.arange(len(names))
            own = shares.loc[names].fillna(0)
            left = own.cumsum(axis=1) - own
            for tone, colour in enumerate(MONK, 1):
                bars = {"left": left[float(tone)], "height": 0.78, "color": colour, "edgecolor": INK}
                axes.barh(places, own[float(tone)], lw=0.3 * (own[float(tone)] > 0), **bars)
            for place, count in zip(places, counts[names]):
                axes.text(1.015, place, f"{int(count)}", va="center", fontsize=6.5)
            _name_rows(axes, [of_all if name == ALL else name for name in names], places, deep)
            axes.set_xlim(0, 1)
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        handles = [
            Patch(facecolor=colour, edgecolor=INK, lw=0.4, label=str(tone))
            for tone, colour in enumerate(MONK, 1)
        ]
        options = {"handlelength": 1, "columnspacing": 0.9, "title_fontsize": 7.5, "alignment": "right"}
        figure.legend(handles=handles, loc="outside upper right", ncols=TONES, title="Monk tone", **options)
        figure.supxlabel("share of the images with a tone", fontsize=8)
    return figure
