"""The gap along the layers of the text encoder, a panel a readout, and along the blocks of the image decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.metrics.registry import READOUTS
from analysis.report.figures.atlas import beyond_words
from analysis.report.figures.style import DOUBLE, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label, number, over
from hooks.architectures.addresses import place

DECODER = "image decoder"
TICKS = 21  # named in all panels


def layer_rows(gap: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``tables/gap`` that are drawn along the layers, each with its ``panel``."""
    readout = gap["metric"].str.removeprefix("cosine_").where(gap["space"] == "prompt")
    decoder = (gap["space"] == "image") & (gap["metric"] == "cosine")
    return gap.assign(panel=readout.mask(decoder, DECODER)).dropna(subset="panel")


def draw_layers(
    gap: pd.DataFrame,
    contrasts: Sequence[tuple[str, str]],
    reference: str,
    unit: str = "prompt",
    alpha: float = 0.05,
) -> Drawn | None:
    """Draw the gap along the layers, a colour a contrast; None where a run captured fewer than two of a panel."""
    rows = layer_rows(gap)
    panels = [(name, rows[rows["panel"] == name]) for name in (*READOUTS, DECODER)]
    panels = [(name, own) for name, own in panels if own["site"].nunique() >= 2]
    if not panels:
        return None
    with style():
        figure = new_figure(DOUBLE, 2.3)
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (name, own) in zip(grid, panels):
            sites = sorted(own["site"].unique(), key=place)
            x = np.arange(len(sites))
            for nth, contrast in enumerate(contrasts):
                line = own[own["contrast"] == "-".join(contrast)].drop_duplicates("site")
                line, color = line.set_index("site").reindex(sites), PALETTE[nth % len(PALETTE)]
                named = " − ".join(map(label, contrast))
                points = {"color": color, "marker": "o", "ms": 2.8, "mew": 0.8}
                axes.fill_between(x, line["ci_low"], line["ci_high"], color=color, alpha=0.22, lw=0)
                axes.plot(x, line["gap"], mfc="none", label=named, **points)
                filled = line["gap"].where(beyond_words(line["p_control_sites"], alpha))
                axes.plot(x, filled, ls="", **points)
            axes.axhline(0, color=INK, lw=0.6, zorder=0.9)
            axes.set_title(name if name == DECODER else f"{name} readout", loc="left")
            _name_ticks(axes, sites, most=TICKS // len(panels))
        grid[0].set_ylabel("gap" if len(contrasts) > 1 else f"gap, {named}")
        if len(contrasts) > 1:
            figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    first, second = (
        map(label, contrasts[0]) if len(contrasts) == 1 else ("the first of a contrast", "the second")
    )
    caption = (
        "Gap along the layers of the text encoder, as each readout has them, and along the blocks of the image decoder "
        f"(positive: {label(reference)} nearer to {first}; negative: to {second}), with bootstrap intervals "
        f"{over(unit)}. Each panel has its own scale: padding dominates sequence, and words leaves the indicator out. "
        "Filled points: over all words the gap is more than synonyms differ among themselves (p < "
        f"{alpha:g} after adjustment over sites and steps)."
    )
    title = "Gap along the text encoder and the image decoder"
    ends = [
        (name, *(number(x, 3, True) for x in (own["gap"].min(), own["gap"].max()))) for name, own in panels
    ]
    alt = f"{title}. {'; '.join(f'{name}: from {low} to {high}' for name, low, high in ends)}."
    return Drawn("gap-layers", figure, title, caption, wide=True, alt=alt)


def _name_ticks(axes: Axes, sites: Sequence[str], most: int) -> None:
    """Name about so many sites at most, evenly from the first on, and the last."""
    names = [place(site).label.replace("layer ", "").replace("embeddings", "emb.") for site in sites]
    every, last = max(1, -(-len(names) // most)), len(names) - 1
    keep = [*range(0, max(1, last - every + 1), every), last]
    rotation = 30 if max(map(len, names)) > 5 else 0
    axes.set_xticks(keep, [names[i] for i in keep], rotation=rotation, ha="right" if rotation else "center")
