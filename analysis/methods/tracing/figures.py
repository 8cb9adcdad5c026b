"""Where and when it is decided: shares of a total effect as a forest and as a map."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize

from analysis.methods.tracing.findings import marked
from analysis.methods.tracing.shares import FLOOR, NECESSITY, SUFFICIENCY
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
WINDOWS = "window of calls of the denoiser within which the activations are exchanged"
BOTH_WAYS = "Sufficiency: the reference’s run with a word’s activations; necessity: a word’s run with the reference’s."


def draw_shares(shown: Measured) -> Drawn | None:
    """The shares of places, as `forest` has them."""
    return forest(shown.rows("trace_shares", SHOWN), *_options(shown))


def draw_windows(shown: Measured) -> Drawn | None:
    """The shares of windows of steps, as `draw_map` has them."""
    return draw_map(shown.rows("trace_windows", SHOWN), "trace-windows", *_options(shown))


def draw_heads(shown: Measured) -> Drawn | None:
    """The shares of heads, as `draw_map` has them."""
    return draw_map(shown.rows("trace_heads", SHOWN), "trace-heads", *_options(shown))


def _options(shown: Measured) -> tuple[float, float, str, str]:
    return tuple(shown.words[name] for name in ("level", "alpha", "outcome", "unit"))


def forest(
    table: pd.DataFrame, level: float, alpha: float, outcome: str, unit: str = "prompt"
) -> Drawn | None:
    """Shares of places below each other with intervals and floor, or effects where no share can be stated."""
    rows = marked(table, alpha)
    if rows["effect"].isna().all():
        return None
    shares = rows["share"].notna().any()
    value, low, high = columns = SHARE if shares else EFFECT
    places = list(dict.fromkeys(rows["place"]))
    rows["y"] = rows["place"].map(places.index)
    shown = [name for name in (SUFFICIENCY, NECESSITY) if (rows["estimand"] == name).any()]
    floor = rows[rows["estimand"] == FLOOR]
    with style():
        figure = new_figure(DOUBLE, 0.95 + 0.2 * len(places))
        figure.get_layout_engine().set(w_pad=PAD)
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True, sharex=True)[0]
        for axes, estimand, color in zip(panels, shown, PALETTE):
            for line in (0.0, 1.0) if shares else (0.0,):
                axes.axvline(line, color=INK, lw=0.6, zorder=0)
            if estimand == SUFFICIENCY:
                axes.hlines(floor["y"] + 0.22, *_ends(floor, low, high), color=FAINT, lw=2.2)
                axes.plot(floor[value], floor["y"] + 0.22, "D", color=PALETTE[6], ms=2.6, mec="none")
            part = rows[rows["estimand"] == estimand]
            axes.hlines(part["y"], *_ends(part, low, high), color=color, lw=1.6)
            for significant, face in ((True, color), (False, "white")):
                some = part[part["significant"] == significant]
                axes.plot(some[value], some["y"], "o", ms=4.4, mfc=face, mec=color, mew=1.1)
            axes.set_title(estimand, loc="left")
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        values = rows[list(columns)].to_numpy(float)
        reach = MAXIMUM_REACH * max(float(np.nanmax(np.abs(values[:, 0]))), float(shares))
        panels[0].set_xlim(*limits([0.0, float(shares), *values[np.abs(values) <= (reach or 1.0)]]))
        panels[0].set_yticks(range(len(places)), places)
        panels[0].set_ylim(len(places) - 0.5, -0.5)
        figure.supxlabel(
            "share of the total effect" if shares else f"what the place moves the {outcome} by", fontsize=8
        )
    what = "Share of the total effect of both words" if shares else f"Effect of both words on the {outcome}"
    caption = f"{what} by place{_intervals(rows, level, alpha, unit)} {BOTH_WAYS}"
    if len(floor):
        caption += " Grey diamonds: the floor, a word of the reference’s meaning as donor."
    if not shares and rows["n_prompts"].max() > 1:
        caption += " No shares: the total effect cannot be told from 0."
    return Drawn("trace-shares", figure, f"{'Shares' if shares else 'Effects'} by place", caption, wide=True)


def _ends(rows: pd.DataFrame, low: str, high: str) -> list[pd.Series]:
    """Ends of intervals; one without an end goes as far as no axis does."""
    return [rows[name].clip(-1e6, 1e6) for name in (low, high)]


def _intervals(rows: pd.DataFrame, level: float, alpha: float, unit: str) -> str:
    if rows["n_prompts"].max() == 1:
        return f". Of one {unit}: no interval can be given."
    return (
        f", with {100 * level:g} % intervals {over(unit)} that hold for all rows at once. Filled or bold: more than the"
        f" floor (necessity: than 0), p < {alpha:g}, adjusted over all rows."
    )


def draw_map(
    table: pd.DataFrame, name: str, level: float, alpha: float, outcome: str, unit: str = "prompt"
) -> Drawn | None:
    """The map of shares, or of effects: places down, windows of steps (or heads, by the name) across."""
    rows = marked(table, alpha)
    if rows.empty or rows["effect"].isna().all():
        return None
    shares = rows["share"].notna().any()
    value, low, high = SHARE if shares else EFFECT
    most = 1.0 if shares else rows[value].abs().max() or 1.0
    if name == "trace-windows":
        rows["cell"] = [f"{first}–{stop - 1}" for first, stop in zip(rows["first_step"], rows["stop_step"])]
        rows, across = rows.sort_values(["first_step", "stop_step"], kind="stable"), WINDOWS
    else:
        rows["cell"], across = rows["heads"], "head"
    places, cells = (list(dict.fromkeys(rows[column])) for column in ("place", "cell"))
    shown = [one for one in (SUFFICIENCY, NECESSITY) if (rows["estimand"] == one).any()]
    with style():
        figure = new_figure(DOUBLE, 1.15 + 0.3 * len(places))
        figure.get_layout_engine().set(w_pad=PAD)
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, estimand in zip(panels, shown):
            part = rows[rows["estimand"] == estimand]
            values = part.pivot(index="place", columns="cell", values=value).reindex(places)[cells]
            mesh = axes.pcolormesh(
                np.ma.masked_invalid(values), cmap=DIVERGING.reversed(), norm=Normalize(-most, most), zorder=0
            )
            for row in part.to_dict("records"):
                text = short(row[value])
                if len(cells) * len(shown) <= 10 and not np.isnan(row[low]):
                    text += f"\n{short(row[low])} to {short(row[high])}"
                axes.text(
                    cells.index(row["cell"]) + 0.5,
                    places.index(row["place"]) + 0.5,
                    text,
                    size=5.5,
                    weight="bold" if row["significant"] else "normal",
                    color="white" if abs(row[value]) > 0.85 * most else "black",
                    ha="center",
                    va="center",
                )
            axes.set_xticks(np.arange(len(cells)) + 0.5, cells)
            axes.set_title(estimand, loc="left")
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        panels[0].set_ylim(len(places), 0)
        panels[0].set_yticks(np.arange(len(places)) + 0.5, places)
        bar = figure.colorbar(mesh, ax=list(panels), fraction=0.02, pad=0.012, extend="both")
        bar.outline.set_visible(False)
        bar.set_label("share" if shares else f"what it moves the {outcome} by")
        figure.supxlabel(across, fontsize=8)
    what = "Share of the total effect of both words" if shares else f"Effect of both words on the {outcome}"
    by = across.split(" ")[0]
    caption = f"{what} by place and {by}{_intervals(rows, level, alpha, unit)} {BOTH_WAYS}"
    title = f"Map of {'shares' if shares else 'effects'}: places by {by}s"
    return Drawn(name, figure, title, caption, wide=True)


def short(value: float) -> str:
    """A number in two digits, without the 0 before the point."""
    if np.isinf(value):
        return f"{MINUS if value < 0 else ''}∞"
    return fixed(value, 2, "").replace("-", MINUS)
