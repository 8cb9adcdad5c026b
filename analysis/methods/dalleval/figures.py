"""Figures of an audit of professions: averages beside what chance gives, tones in their colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.methods.dalleval.names import first_source, named, of_first, profession
from analysis.methods.dalleval.scores import GENDER, TONE, TONES
from analysis.methods.dalleval.tables import ALL
from analysis.metrics.skin_tone import MONK
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label

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


def draw_gender(
    table: pd.DataFrame, words: Sequence[str], floor: float, *, told: bool, alpha: float
) -> Drawn | None:
    """Draw the average gender of each profession with its interval, and how far from 0 chance alone gets.

    The first of the words has intervals and orders the rows; dots are filled only where the professions together
    deviate from half and half (`told`). `floor` is that of their MAD, half the distance from 0.
    """
    source, own = first_source(table, GENDER), of_first(table, GENDER)
    main = gender_rows(table, words[0])
    if main.empty:
        return None
    others = {word: own[own["indicator"] == word].set_index("profession")["average"] for word in words[1:]}
    with style():
        figure, panels, deep = _columns(len(main), 0.9)
        for number, axes in enumerate(panels):  # the highest on top of the first column
            last = len(main) - number * deep
            axes.axvspan(-2 * floor, 2 * floor, color=FAINT, alpha=0.55, lw=0)
            _gender_rows(axes, main.iloc[max(last - deep, 0) : last], others, deep, told, alpha)
        handles = [
            Line2D([], [], color=PALETTE[0], marker="o", ms=4, label=label(words[0])),
            *(
                Line2D([], [], color=PALETTE[i], marker="|", ms=7, mew=1.5, ls="", label=label(word))
                for i, word in enumerate(others, 1)
            ),
            Patch(color=FAINT, alpha=0.55, lw=0, label="by chance, on average"),
        ]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
        figure.supxlabel("average gender: images read as male −1, as female +1", fontsize=8)
    caption = (
        f"Average gender of images generated from {label(words[0])} prompts of each profession, read by "
        f"{named(source)}, with intervals over images; a filled dot: not half and half (exact binomial test, adjusted "
        f"p < {alpha:g}), where all together deviate by more than chance. Grey: how far from 0 chance alone gets on "
        "average with so many images. Ticks: other words."
    )
    return Drawn("dalleval-gender", figure, "Average gender by profession", caption, wide=True)


def gender_rows(table: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the rows of ``tables/dalleval_professions`` that have dots: of the reference, by the first reader."""
    own = of_first(table, GENDER)
    own = own[(own["indicator"] == reference) & (own["profession"] != ALL)]
    return own.sort_values("average", kind="stable", na_position="first")


def not_even(rows: pd.DataFrame, told: bool, alpha: float) -> np.ndarray:
    """Tell which dots are filled: of professions whose images are not read as female in half of them.

    None is where the professions together do not deviate (`analysis.methods.dalleval.page_tests.even_refuted`).
    """
    return told & (rows["p_adjusted"] < alpha).to_numpy() & rows["low"].notna().to_numpy()


def _gender_rows(
    axes: Axes, rows: pd.DataFrame, others: dict[str, pd.Series], deep: int, told: bool, alpha: float
) -> None:
    """One column of professions, from the bottom up."""
    places = np.arange(len(rows)) + deep - len(rows)
    for number, averages in enumerate(others.values(), 1):
        values = averages.reindex(rows["profession"]).to_numpy(float)
        known = ~np.isnan(values)
        if known.any():
            axes.plot(values[known], places[known], "|", color=PALETTE[number], ms=7, mew=1.5, clip_on=False)
    read = rows["low"].notna().to_numpy()
    axes.hlines(places[read], rows["low"][read], rows["high"][read], color=PALETTE[0], lw=1.3)
    sure = not_even(rows, told, alpha)
    dots = {"ls": "", "marker": "o", "ms": 4, "mec": PALETTE[0], "clip_on": False}
    for chosen, face in ((sure, PALETTE[0]), (read & ~sure, "white")):
        if chosen.any():  # the layout makes room for a line of no points
            axes.plot(rows["average"].to_numpy()[chosen], places[chosen], mfc=face, **dots)
    for place in places[~read]:
        axes.text(0.02, place, "no images", va="center", fontsize=6.5)
    _profession_axis(axes, rows["profession"], places, deep)
    axes.axvline(0, color=INK, lw=0.6)
    axes.set_xlim(-1.04, 1.04)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["−1", "−0.5", "0", "0.5", "1"])


def _profession_axis(axes: Axes, names: Sequence[str], places: np.ndarray, deep: int) -> None:
    axes.set_yticks(places, [label(profession(name)) for name in names])
    axes.set_ylim(-0.6, deep - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def draw_tones(table: pd.DataFrame) -> Drawn | None:
    """Draw the share of each Monk tone in the images of each profession, in the tones' colours."""
    source = first_source(table, TONE)
    own = table[(table["source"] == source) & (table["question"] == TONE) & (table["indicator"] == ALL)]
    if own.empty:
        return None
    counts = own.drop_duplicates("profession").set_index("profession")["decided"]
    figure = _tones(own.pivot(index="profession", columns="category", values="share"), counts, "professions")
    caption = (
        f"Tones of the images generated from the prompts of each profession, all words together, by {named(source)}: "
        "the share of each tone of the Monk scale, in its colour; on the right the images that have one. Rows by their "
        "average, light to dark. Frequencies of what was drawn, not of anybody."
    )
    return Drawn("dalleval-tones", figure, "Tones by profession", caption, wide=True)


def draw_attribute_tones(table: pd.DataFrame) -> Drawn | None:
    """Draw the share of each Monk tone in the images in which an attribute is read (DALL-Eval, Figure 8)."""
    source, reader = table["source"].iloc[0], table["reader"].iloc[0]
    own = table[(table["source"] == source) & (table["reader"] == reader)]
    counts = own.drop_duplicates("attribute").set_index("attribute")["decided"]
    if not counts.any():
        return None
    figure = _tones(own.pivot(index="attribute", columns="category", values="share"), counts, "images")
    caption = (
        f"Tones of the images in which an attribute is read by {named(reader)}, all professions and words together; "
        f"tones by {named(source)}, in their colours; on the right the images that have one. Rows by their average, "
        "light to dark. Frequencies of what was drawn, not of anybody."
    )
    return Drawn("dalleval-attribute-tones", figure, "Tones by attribute", caption, wide=True)


def _tones(shares: pd.DataFrame, counts: pd.Series, of_all: str) -> Figure:
    """Bars of tones, rows by their average; the row of all comes first and is called by what it is of."""
    mean = (shares * shares.columns).sum(axis=1, min_count=1)
    order = [ALL, *mean.drop(ALL).sort_values(kind="stable", na_position="last").index]
    with style():
        figure, panels, deep = _columns(len(order), 0.95)
        for number, axes in enumerate(panels):
            names = order[number * deep : (number + 1) * deep]
            _tone_rows(axes, shares.loc[names], counts.loc[names], deep, f"all {of_all}")
        handles = [
            Patch(facecolor=colour, edgecolor=INK, lw=0.4, label=str(tone))
            for tone, colour in enumerate(MONK, 1)
        ]
        figure.legend(
            handles=handles, loc="outside upper right", ncols=TONES, handlelength=1, columnspacing=0.9,
            title="Monk tone", title_fontsize=7.5, alignment="right",
        )  # fmt: skip
        figure.supxlabel("share of the images with a tone", fontsize=8)
    return figure


def _tone_rows(axes: Axes, shares: pd.DataFrame, counts: pd.Series, deep: int, of_all: str) -> None:
    places = deep - 1 - np.arange(len(shares))
    left = np.zeros(len(shares))
    for tone, colour in enumerate(MONK, 1):
        width = shares[float(tone)].fillna(0).to_numpy()
        drawn = width > 0
        axes.barh(
            places[drawn], width[drawn], left=left[drawn], height=0.78, color=colour, edgecolor=INK, lw=0.3
        )  # fmt: skip
        left += width
    for place, count in zip(places, counts):
        axes.text(1.015, place, f"{int(count)}", va="center", fontsize=6.5)
    names = [of_all if name == ALL else name for name in shares.index]
    _profession_axis(axes, names, places, deep)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
