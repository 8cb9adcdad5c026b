"""The figure of probes: sites down, steps across, scores as colour."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize

from analysis.methods.decoding import NOT_USED
from analysis.methods.decoding.fit import READER
from analysis.report.figures.atlas import MAX_HEIGHT, ROW_HEIGHT, step_label
from analysis.report.figures.style import DIVERGING, DOUBLE, INK, Drawn, new_figure, style
from hooks.architectures.addresses import place

ROOM = (0.035, 0, 0.965, 1)  # labels of sites are measured too narrow at 100 dpi
PANELS = {  # of a score: title and range of colours, whose middle is chance
    "auc": ("the two words,\nheld-out prompts", 0.0, 1.0),
    "synonyms": ("words of the\nsame meaning", 0.0, 1.0),
    "outcome": ("outcome of the\nneutral run", 0.0, 1.0),
    "selectivity": ("selectivity\n(accuracy − control)", -0.5, 0.5),
}


def draw_scores(table: pd.DataFrame, sites: pd.DataFrame, words: str) -> Drawn | None:
    """The scores of every site that is read at each step, across steps; None where there is none."""
    rows = table[(table["group"] == "") & (table["step"] >= 0) & table["value"].notna()]
    known = set(rows["site"])
    if not known - {READER}:
        return None
    names = [*sorted(known - {READER}, key=place), *(known & {READER})]
    steps = sorted(set(rows["step"]))
    timesteps = dict(zip(rows["step"], rows["timestep"]))
    begun = sites[sites["group"] == ""].set_index("site")["decoding_step"].dropna()
    panels = {name: panel for name, panel in PANELS.items() if (rows["score"] == name).any()}
    with style():
        figure = new_figure(DOUBLE, min(ROW_HEIGHT * len(names) + 1.9, MAX_HEIGHT))
        figure.get_layout_engine().set(rect=ROOM)
        grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (score, (title, low, high)) in zip(grid, panels.items()):
            wide = rows[rows["score"] == score].pivot(index="site", columns="step", values="value")
            shown = np.ma.masked_invalid(wide.reindex(index=names, columns=steps).to_numpy(float))
            axes.set_facecolor("#eeeeee")  # what is undefined
            mesh = axes.pcolormesh(
                shown, cmap=DIVERGING, norm=Normalize(low, high), edgecolors="face", lw=0.1
            )
            axes.set_title(title)
            axes.tick_params(length=0, pad=2)
            axes.spines[:].set_visible(False)
            bar = figure.colorbar(mesh, ax=axes, orientation="horizontal", fraction=0.03, pad=0.02, aspect=14)
            bar.outline.set_visible(False)
            bar.set_ticks([low, (low + high) / 2, high])
            bar.set_label("difference" if low < 0 else "AUC")
            ticks = range(0, len(steps), max(1, int(np.ceil(len(steps) / 4))))
            axes.set_xticks([i + 0.5 for i in ticks], [step_label(int(steps[i]), timesteps) for i in ticks])
            if score == "auc":
                dots = [(steps.index(begun[name]), y) for y, name in enumerate(names) if name in begun]
                x, y = np.reshape(dots, (-1, 2)).T + 0.5
                axes.scatter(x, y, s=5, facecolors="white", edgecolors=INK, lw=0.5)
        grid[0].set_ylim(len(names), 0)
        grid[0].set_yticks(np.arange(len(names)) + 0.5, map(_label, names))
    caption = (
        "Area under the ROC curve of linear probes by site and step; white: chance. Dots: the decoding step, the first"
        " whose lower bound is above ½ and that reaches 90 % of the last step's AUC. "
    )
    if READER in names:
        caption += (
            "Last row: how early anybody reads the component off a whole latent, of noised renderings. "
        )
    return Drawn("decoding-steps", figure, f"What probes read: {words}", caption + NOT_USED, wide=True)


def _label(site: str) -> str:
    if site == READER:
        return "anybody"
    where = place(site)
    return f"{where.group} {where.label}" if where.group in ("down", "mid", "up") else where.label
