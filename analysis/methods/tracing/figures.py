"""Where and when it is decided: shares of a total effect as a forest and as a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis.methods.tracing.effects import NECESSITY, SUFFICIENCY
from analysis.methods.tracing.findings import marked
from analysis.methods.tracing.shares import FLOOR
from analysis.report.figures.style import (
    DIVERGING,
    DOUBLE,
    FAINT,
    INK,
    PALETTE,
    Drawn,
    limits,
    new_figure,
    style,
)
from analysis.report.format import MINUS, fixed, over
from analysis.tables.spec import Measured

SHOWN = "outcome == @shown and donor == @both"
PAD = 0.16  # inches: names of places, measured at 100 dpi, are wider at others
MAXIMUM_REACH = 2.0  # of an axis, in largest values: wider intervals go on beyond it
SHARE, EFFECT = ("share", "low", "high"), ("effect", "effect_low", "effect_high")
ACROSS = {
    "windows": "window of calls of the denoiser within which the activations are exchanged",
    "heads": "head",
}
BOTH_WAYS = "Sufficiency: the reference’s run with a word’s activations; necessity: a word’s run with the reference’s."


def draw_shares(shown: Measured) -> Drawn | None:
    """The shares of places, as `forest` has them."""
    return forest(shown.rows("trace_shares", SHOWN), shown.words)


def draw_windows(shown: Measured) -> Drawn | None:
    """The shares of windows of steps, as `draw_map` has them."""
    return draw_map(shown.rows("trace_windows", SHOWN), shown.words, "windows")


def draw_heads(shown: Measured) -> Drawn | None:
    """The shares of heads, as `draw_map` has them."""
    return draw_map(shown.rows("trace_heads", SHOWN), shown.words, "heads")


def forest(table: pd.DataFrame, words: Mapping[str, Any]) -> Drawn | None:
    """Shares of places below each other with intervals and floor, or effects where no share can be stated."""
    rows = marked(table, words["alpha"])
    if rows["effect"].isna().all():
        return None
    shares = rows["share"].notna().any()
    value, low, high = columns = SHARE if shares else EFFECT
    places = list(dict.fromkeys(rows["place"]))
    rows["y"] = rows["place"].map(places.index)
    ends = rows[[low, high]].clip(-1e6, 1e6)  # one without an end goes as far as no axis does
    floor = rows[rows["estimand"] == FLOOR]
    with style():
        figure, panels = _panels(rows, 0.95 + 0.2 * len(places), sharex=True)
        for (estimand, axes), color in zip(panels.items(), PALETTE):
            for line in (0.0, 1.0) if shares else (0.0,):
                axes.axvline(line, color=INK, lw=0.6, zorder=0)
            if estimand == SUFFICIENCY:
                axes.hlines(floor["y"] + 0.22, *ends.loc[floor.index].T.values, color=FAINT, lw=2.2)
                axes.plot(floor[value], floor["y"] + 0.22, "D", color=PALETTE[6], ms=2.6, mec="none")
            part = rows[rows["estimand"] == estimand]
            axes.hlines(part["y"], *ends.loc[part.index].T.values, color=color, lw=1.6)
            for significant, face in ((True, color), (False, "white")):
                some = part[part["significant"] == significant]
                axes.plot(some[value], some["y"], "o", ms=4.4, mfc=face, mec=color, mew=1.1)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        values = rows[list(columns)].to_numpy(float)
        reach = MAXIMUM_REACH * max(float(np.nanmax(np.abs(values[:, 0]))), float(shares))
        axes.set_xlim(*limits([0.0, float(shares), *values[np.abs(values) <= (reach or 1.0)]]))
        axes.set_yticks(range(len(places)), places)
        axes.set_ylim(len(places) - 0.5, -0.5)
        figure.supxlabel(
            "share of the total effect" if shares else f"what the place moves the {words['outcome']} by",
            fontsize=8,
        )
    caption = _caption(rows, words, "place")
    if len(floor):
        caption += " Grey diamonds: the floor, a word of the reference’s meaning as donor."
    if not shares and rows["n_prompts"].max() > 1:
        caption += " No shares: the total effect cannot be told from 0."
    return Drawn("trace-shares", figure, f"{'Shares' if shares else 'Effects'} by place", caption, wide=True)


def draw_map(table: pd.DataFrame, words: Mapping[str, Any], kind: str) -> Drawn | None:
    """The map of shares, or of effects: places down, windows of steps or heads (`ACROSS`) across."""
    rows = marked(table, words["alpha"])
    if rows["effect"].isna().all():
        return None
    shares = rows["share"].notna().any()
    value = "share" if shares else "effect"
    most = 1.0 if shares else rows[value].abs().max() or 1.0
    rows = rows.sort_values(["first_step", "stop_step"], kind="stable")
    windows = [f"{first}–{stop - 1}" for first, stop in zip(rows["first_step"], rows["stop_step"])]
    rows["cell"] = windows if kind == "windows" else rows["heads"]
    places, cells = (list(dict.fromkeys(rows[column])) for column in ("place", "cell"))
    with style():
        figure, panels = _panels(rows, 1.15 + 0.3 * len(places))
        for estimand, axes in panels.items():
            part = rows[rows["estimand"] == estimand]
            values = part.pivot(index="place", columns="cell", values=value).loc[places, cells]
            mesh = axes.pcolormesh(values, cmap=DIVERGING.reversed(), norm=Normalize(-most, most), zorder=0)
            for row in part.to_dict("records"):
                axes.text(
                    cells.index(row["cell"]) + 0.5,
                    places.index(row["place"]) + 0.5,
                    fixed(row[value], 2, "").replace("-", MINUS),
                    size=5.5,
                    weight="bold" if row["significant"] else "normal",
                    color="white" if abs(row[value]) > 0.85 * most else "black",
                    ha="center",
                    va="center",
                )
            axes.set_xticks(np.arange(len(cells)) + 0.5, cells)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        axes.set_ylim(len(places), 0)
        axes.set_yticks(np.arange(len(places)) + 0.5, places)
        bar = figure.colorbar(mesh, ax=list(panels.values()), fraction=0.02, pad=0.012, extend="both")
        bar.outline.set_visible(False)
        bar.set_label("share" if shares else f"what it moves the {words['outcome']} by")
        figure.supxlabel(ACROSS[kind], fontsize=8)
    title = f"Map of {'shares' if shares else 'effects'}: places by {kind}"
    return Drawn(f"trace-{kind}", figure, title, _caption(rows, words, f"place and {kind[:-1]}"), wide=True)


def _panels(rows: pd.DataFrame, height: float, **shared: bool) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a panel for sufficiency and, where it was asked for, for necessity."""
    names = [name for name in (SUFFICIENCY, NECESSITY) if (rows["estimand"] == name).any()]
    figure = new_figure(DOUBLE, height)
    figure.get_layout_engine().set(w_pad=PAD)
    panels = dict(zip(names, figure.subplots(1, len(names), squeeze=False, sharey=True, **shared)[0]))
    for name, axes in panels.items():
        axes.set_title(name, loc="left")
    return figure, panels


def _caption(rows: pd.DataFrame, words: Mapping[str, Any], by: str) -> str:
    shares = rows["share"].notna().any()
    of = (
        "Share of the total effect of both words"
        if shares
        else f"Effect of both words on the {words['outcome']}"
    )
    if rows["n_prompts"].max() == 1:
        return f"{of} by {by}. Of one {words['unit']}: no interval can be given. {BOTH_WAYS}"
    return (
        f"{of} by {by}, with {100 * words['level']:g} % intervals {over(words['unit'])} that hold for all rows at once."
        f" Filled or bold: more than the floor (necessity: than 0), p < {words['alpha']:g}, adjusted over all rows."
        f" {BOTH_WAYS}"
    )
