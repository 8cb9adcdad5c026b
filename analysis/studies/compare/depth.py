"""Where in the denoiser, and at which noise, the gap of each of several runs opens: across architectures.

Sites of two architectures have no names in common, and neither have their steps. What they share: how deep in the
denoiser the image's states stand between two blocks (0: before the first, 1: behind the last), and how much of the
latent is noise.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize

from analysis.report.figures.atlas import atlas_rows, beyond_words
from analysis.report.figures.style import DIVERGING, DOUBLE, Drawn, new_figure, style
from analysis.report.format import label
from analysis.study import contrasts
from analysis.tables.registry import read
from analysis.tables.similarities.word_gap import joined_gaps
from hooks.architectures.addresses import place
from probes.runs.run import Run

COLUMNS = [
    *("run", "contrast", "site", "depth", "step", "timestep", "noise"),
    *("gap", "distance", "share", "p_control_sites"),
]
_PANEL = 2.4  # inches
_LETTERS = 80  # of the titles of all panels, side by side


def depth_table(runs: Mapping[str, Run]) -> pd.DataFrame:
    """Return the gap of every run between all blocks of its denoiser, at every step.

    ``depth`` from 0 (before the first block) to 1 (behind the last) by rank; ``noise`` as of `noise_share`; ``gap`` of
    the cosine between the indicators' words, ``distance`` of their two sides, and ``share``, gap ÷ distance: 1 where
    the reference stands as near to the first side as the sides are apart. NaN where the sides differ by less than the
    smallest gap that matters; ``p_control_sites`` as in ``tables/word_gap``.
    """
    rows = [
        _of_run(name, run, contrast)
        for name, run in runs.items()
        if "gap" in run.tables()
        for contrast in contrasts(run.config)
    ]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=COLUMNS)


def _of_run(name: str, run: Run, contrast: tuple[str, str]) -> pd.DataFrame:
    from probes.models.loading import noise_share  # not before: it loads torch

    gap = atlas_rows(joined_gaps(partial(read, run)), contrast)
    gap = gap[gap["site"].map(lambda site: place(site).between_blocks).astype(bool)]
    sites = sorted(gap["site"].unique(), key=place)
    if len(sites) < 2:
        return pd.DataFrame(columns=COLUMNS)
    disparity = read(run, "disparity")
    both = disparity["pair"].isin(["-".join(contrast), "-".join(contrast[::-1])])
    sides = disparity[both & (disparity["metric"] == "cosine")][["site", "step", "mean"]]
    timesteps = read(run, "timesteps").set_index("step")["timestep"].astype(float)
    table = (
        gap.drop(columns="mean", errors="ignore")
        .merge(sides, on=["site", "step"], how="left")
        .assign(
            run=name,
            depth=lambda rows: (
                rows["site"].map(dict(zip(sites, np.linspace(0, 1, len(sites))))).astype(float)
            ),
            timestep=lambda rows: rows["step"].map(timesteps),
            noise=lambda rows: noise_share(run.meta.get("scheduler") or {}, rows["timestep"]),
            distance=lambda rows: 1 - rows["mean"],
            share=lambda rows: (rows["gap"] / rows["distance"]).where(rows["distance"] > rows["delta"]),
        )
    )
    return table[COLUMNS]


def opening_lines(table: pd.DataFrame, alpha: float) -> list[str]:
    """A line for each run and contrast: where its gap is first more than its words differ, at most noise."""
    beyond = table[beyond_words(table["p_control_sites"], alpha)].sort_values(["step", "depth"])
    first = beyond.drop_duplicates(["run", "contrast"]).set_index(["run", "contrast"]).to_dict("index")
    lines = []
    for run, contrast in dict.fromkeys(zip(table["run"], table["contrast"])):
        place, where = first.get((run, contrast)), "nowhere between blocks"
        if place:
            noise = f", noise {place['noise']:.2f}" if pd.notna(place["noise"]) else ""
            where = f"first at depth {place['depth']:.2f} ({place['site']}){noise}"
        lines.append(f"{run}, {contrast}: more than words differ {where}")
    return lines


def draw_depth(table: pd.DataFrame, contrast: tuple[str, str], reference: str, alpha: float) -> Drawn | None:
    """Draw one panel per run of `depth_table`: noise across, depth down, share of the gap as colour; None for one."""
    name = "-".join(contrast)
    rows = table[(table["contrast"] == name) & table["noise"].notna()]
    runs = list(dict.fromkeys(rows["run"]))
    if len(runs) < 2:
        return None
    with style():
        figure = new_figure(DOUBLE, _PANEL)
        panels = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
        for axes, run in zip(panels, runs, strict=True):
            cells = rows[rows["run"] == run].sort_values(["depth", "step"])
            wide = cells.pivot_table(index="depth", columns="step", values="share", dropna=False)
            noise = cells.drop_duplicates("step").set_index("step")["noise"].reindex(wide.columns)
            mesh = axes.pcolormesh(
                _edges(noise.to_numpy()),
                _edges(wide.index.to_numpy()),
                np.ma.masked_invalid(wide.to_numpy(float)),
                cmap=DIVERGING,
                norm=Normalize(-1, 1),
            )
            beyond = cells[beyond_words(cells["p_control_sites"], alpha)]
            axes.scatter(beyond["noise"], beyond["depth"], s=2, c="black", lw=0)
            axes.set_title(textwrap.fill(label(run), max(8, _LETTERS // len(runs))))
            axes.set_xlim(1, 0)
        figure.supxlabel("share of noise in the latent", fontsize=8)
        panels[0].set_ylabel("relative depth in the denoiser")
        panels[0].invert_yaxis()
        bar = figure.colorbar(mesh, ax=list(panels), fraction=0.025, aspect=25, extend="both")
        bar.outline.set_visible(False)
        named, (first, second) = label(reference), map(label, contrast)
        bar.set_label(f"← {second} · {first} →")
    caption = (
        f"Gap of the cosine similarity, s({named}, {first}) − s({named}, {second}), as a share of the distance between "
        "the two sides: 0 is halfway, 1 as near to one side as the two are apart. Across: denoising, from pure noise "
        "to none. Down: the image's states before the first block (0) and behind each block (1: the last). White: the "
        "sides differ by less than the smallest gap that matters. Dots: over all words the gap is more than synonyms "
        f"differ (p < {alpha:g}, Benjamini–Hochberg over all sites and steps of the run)."
    )
    title = f"Where the gap opens, {first} − {second}: depth and noise, run by run"
    return Drawn(f"depth-{name}", figure, title, caption, wide=True)


def _edges(centres: np.ndarray) -> np.ndarray:
    """Return the borders of cells around their centres, which need not be evenly spaced."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[:-1] + centres[1:]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])
