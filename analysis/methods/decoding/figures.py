"""Figures of probes: sites down, steps across, AUC as colour; the decoding step of each site; the reference reader."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from analysis.methods.decoding.defaults import NOT_USED
from analysis.report.figures.atlas import MAX_HEIGHT, ROW_HEIGHT, step_label
from analysis.report.figures.style import DIVERGING, DOUBLE, INK, PALETTE, Drawn, new_figure, style
from hooks.architectures.addresses import place

POSITIONS = ("start", "before", "word", "after", "end", "padding")
ROOM = (0.035, 0, 0.965, 1)  # labels of sites are measured too narrow at 100 dpi
_READER = "anybody, from noised renderings"


def _panels(words: str) -> tuple[tuple[str, str, float, float], ...]:
    """Column, title and range of colours of each panel; the middle of a range is chance."""
    return (
        ("auc", f"{words},\nheld-out prompts", 0.0, 1.0),
        ("synonyms", "words of the\nsame meaning", 0.0, 1.0),
        ("outcome", "outcome of the\nneutral run", 0.0, 1.0),
        ("selectivity", "selectivity\n(accuracy − control)", -0.5, 0.5),
    )


def draw_steps(
    table: pd.DataFrame, steps: pd.DataFrame, reader: pd.DataFrame | None, first: str, second: str
) -> Drawn | None:
    """The scores of every site of the denoiser at every step; None where no site is read at each step."""
    rows = table[(table["step"] >= 0) & (table["group"] == "")]
    if rows.empty:
        return None
    sites = sorted(rows["site"].unique(), key=place)
    calls = sorted(int(step) for step in rows["step"].unique())
    timesteps = dict(zip(rows["step"].astype(int), rows["timestep"]))
    panels = _shown(rows, _panels(f"{second} or {first}"))
    matrices = {column: _matrix(rows, "site", sites, "step", calls, column) for column, *_ in panels}
    begun = steps[steps["group"] == ""].set_index("site")["decoding_step"].reindex(sites).to_numpy(float)
    with style():
        height = min(ROW_HEIGHT * len(sites) + 2.9, MAX_HEIGHT)
        figure = new_figure(DOUBLE, height)
        figure.get_layout_engine().set(rect=ROOM)
        grid = figure.add_gridspec(2, len(panels), height_ratios=[1.15, height - 2.2])
        lines = figure.add_subplot(grid[0, :])
        _lines(lines, matrices["auc"], reader, calls, timesteps)
        for index, (column, title, low, high) in enumerate(panels):
            axes = figure.add_subplot(grid[1, index])
            _heat(axes, matrices[column], title, (low, high), [] if index else sites)
            chosen = list(range(0, len(calls), max(1, int(np.ceil(len(calls) / 4)))))
            axes.set_xticks([i + 0.5 for i in chosen], [step_label(calls[i], timesteps) for i in chosen])
            if column == "auc":
                at = np.flatnonzero(~np.isnan(begun))
                x = [calls.index(int(begun[row])) + 0.5 for row in at]
                axes.scatter(x, at + 0.5, s=5, facecolors="white", edgecolors=INK, lw=0.5)
        figure.supxlabel("call of the U-Net (above) and timestep (below)", fontsize=8)
    caption = (
        "Area under the ROC curve of linear probes, by site and step; white: chance. Dots: the decoding step, the "
        "first whose lower bound is above ½ and that reaches 90 % of the last step's AUC. Top: the best site and the "
        "median site"
        + (
            f", and how early {_READER} of known mixture component, reads that component off a whole latent. "
            if reader is not None
            else ". "
        )
        + NOT_USED
    )
    return Drawn("decoding-steps", figure, f"What probes read: {second} or {first}", caption, wide=True)


def draw_positions(table: pd.DataFrame, first: str, second: str) -> Drawn | None:
    """The scores at sites of tokens, at the first call, by group of token positions; None where there is none."""
    rows = table[(table["group"] != "") & (table["step"] <= 0)]
    if rows.empty:
        return None
    sites = sorted(rows["site"].unique(), key=place)
    groups = [group for group in POSITIONS if group in set(rows["group"])]
    panels = _shown(rows, _panels(f"{second} or {first}"))
    with style():
        figure = new_figure(DOUBLE, min(ROW_HEIGHT * 1.3 * len(sites) + 1.6, MAX_HEIGHT))
        figure.get_layout_engine().set(rect=ROOM)
        for index, (column, title, low, high) in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), index + 1)
            values = _matrix(rows, "site", sites, "group", groups, column)
            _heat(axes, values, title, (low, high), [] if index else sites)
            axes.set_xticks(np.arange(len(groups)) + 0.5, groups, rotation=90)
    caption = (
        "Area under the ROC curve of linear probes where a row is one of tokens, by group of positions around the "
        f"indicator's word; white: chance. {NOT_USED}"
    )
    return Drawn(
        "decoding-positions", figure, f"What probes read in the text: {second} or {first}", caption, wide=True
    )


def _shown(rows: pd.DataFrame, panels: tuple) -> list[tuple[str, str, float, float]]:
    return [panel for panel in panels if rows[panel[0]].notna().any()]


def _matrix(rows: pd.DataFrame, down: str, index: list, across: str, columns: list, value: str) -> np.ndarray:
    wide = rows.pivot_table(index=down, columns=across, values=value, aggfunc="first", dropna=False)
    return wide.reindex(index=index, columns=columns).to_numpy(float)


def _label(site: str) -> str:
    where = place(site)
    return f"{where.group} {where.label}" if where.group in ("down", "mid", "up") else where.label


def _heat(axes: Axes, values: np.ndarray, title: str, ends: tuple[float, float], sites: list[str]) -> None:
    """One panel with its colours below, and the names of sites where there are some; what is undefined is grey."""
    axes.set_facecolor("#eeeeee")
    shown = np.ma.masked_invalid(values)
    mesh = axes.pcolormesh(shown, cmap=DIVERGING, norm=Normalize(*ends), edgecolors="face", lw=0.1)
    axes.set_ylim(len(values), 0)
    axes.set_title(title)
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(mesh, ax=axes, orientation="horizontal", fraction=0.03, pad=0.02, aspect=14)
    bar.outline.set_visible(False)
    bar.set_ticks([ends[0], sum(ends) / 2, ends[1]])
    bar.set_label("difference" if ends[0] < 0 else "AUC")
    axes.set_yticks(np.arange(len(values)) + 0.5, map(_label, sites) if sites else [])


def _lines(
    axes: Axes,
    auc: np.ndarray,
    reader: pd.DataFrame | None,
    calls: list[int],
    timesteps: dict[int, float],
) -> None:
    """AUC by step: the best site, the median site, and the reference reader."""
    axes.axhline(0.5, color=INK, lw=0.6, ls=(0, (2, 2)))
    axes.plot(calls, np.nanmax(auc, axis=0), color=PALETTE[0], marker="o", ms=2.5, label="best site")
    axes.plot(calls, np.nanmedian(auc, axis=0), color=PALETTE[5], marker="o", ms=2.5, label="median site")
    if reader is not None:
        known = reader[reader["step"] >= 0]
        axes.fill_between(
            known["step"], known["auc_low"], known["auc_high"], color=PALETTE[1], alpha=0.2, lw=0
        )
        axes.plot(known["step"], known["auc"], color=PALETTE[1], marker="s", ms=2.5, label=_READER)
    axes.set_ylim(min(0.4, float(np.nanmin(auc))), 1.02)
    axes.set_ylabel("AUC")
    every = max(1, int(np.ceil(len(calls) / 12)))
    axes.set_xticks(calls[::every], [step_label(call, timesteps) for call in calls[::every]])
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.2), ncols=3)  # above the line of chance
