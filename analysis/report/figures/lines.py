"""Gaps and similarities as lines: along the text layers, along the steps, along the image decoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.metrics.registry import READOUTS
from analysis.report.figures.atlas import beyond_words, step_label
from analysis.report.figures.style import (
    DASHES,
    DOUBLE,
    INK,
    PALETTE,
    SINGLE,
    Drawn,
    limits,
    new_figure,
    style,
)
from analysis.report.format import label, over
from hooks.architectures.addresses import place

STEP_PANELS = (
    ("latent", ("latent",)),
    ("noise prediction", ("noise_pred.guided", "noise_pred.conditional", "noise_pred.unconditional")),
    ("x₀ prediction", ("x0_pred",)),
)
LETTER = 0.055  # inches of a letter in a legend
MOST = 12  # lines of a panel: more are not distinguished
Contrasts = list[tuple[str, str]]
_FILLED = (
    "Filled points: over all words the gap is more than synonyms differ among themselves (p < {alpha:g} after "
    "adjustment over sites and steps)."
)


def line_rows(gap: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of ``tables/gap`` whose points each figure of lines may draw, by the name of the figure."""
    cosine, stepwise = gap["metric"] == "cosine", [site for _, sites in STEP_PANELS for site in sites]
    return {
        "gap-text-layers": gap[(gap["space"] == "prompt") & gap["metric"].str.startswith("cosine_")],
        "gap-steps": gap[cosine & (gap["step"] >= 0) & gap["site"].isin(stepwise)],
        "gap-decoder": gap[cosine & (gap["space"] == "image")],
    }


def draw_text_layers(
    gap: pd.DataFrame, contrasts: Contrasts, reference: str, unit: str = "prompt", alpha: float = 0.05
) -> Drawn | None:
    """Draw the gap along the layers of the text encoder, a panel a readout."""
    rows = line_rows(gap)["gap-text-layers"]
    readouts = [name for name in READOUTS if (rows["metric"] == f"cosine_{name}").any()]
    if not readouts:
        return None
    sites = sorted(rows["site"].unique(), key=place)
    names = [place(site).label.replace("layer ", "").replace("embeddings", "emb.") for site in sites]
    with style():
        figure, panels = _panels(2.05, len(readouts))
        for axes, readout in zip(panels, readouts):
            _gap_lines(axes, rows[rows["metric"] == f"cosine_{readout}"], sites, contrasts, alpha)
            axes.set_title(f"{readout} readout", loc="left")
            _name_ticks(axes, names, most=21 // len(readouts))
            axes.set_xlabel("layer of the text encoder")
        _name_gap(figure, panels[0], contrasts)
    caption = (
        f"Gap along the text encoder ({_signs(contrasts, reference)}), with bootstrap intervals {over(unit)}. Each "
        "readout has its own scale: padding dominates sequence, and words leaves the indicator out. "
        + _FILLED.format(alpha=alpha)
    )
    return Drawn("gap-text-layers", figure, "Gap along the layers of the text encoder", caption, wide=True)


def draw_steps(
    gap: pd.DataFrame,
    timesteps: dict[int, float],
    contrasts: Contrasts,
    reference: str,
    unit: str = "prompt",
    alpha: float = 0.05,
) -> Drawn | None:
    """Draw the gap of latents, noise predictions and x0 predictions along the steps."""
    rows = line_rows(gap)["gap-steps"]
    present = [(title, [s for s in sites if (rows["site"] == s).any()]) for title, sites in STEP_PANELS]
    present = [(title, sites) for title, sites in present if sites]
    if not present:
        return None
    steps = sorted(int(step) for step in rows["step"].unique())
    with style():
        figure, panels = _panels(2.25, len(present))
        for axes, (title, sites) in zip(panels, present):
            for dash, site in enumerate(sites):
                part = site.partition(".")[2] if len(sites) > 1 else ""
                own = rows[rows["site"] == site].assign(site=lambda table: table["step"])
                _gap_lines(axes, own, steps, contrasts, alpha, dash=dash, part=part)
            axes.set_title(title, loc="left")
            _step_axis(axes, steps, timesteps)
            if len(sites) > 1 and len(contrasts) == 1:
                axes.legend(loc="best", handlelength=2.6)
        _name_gap(figure, panels[0], contrasts)
    caption = (
        f"Gap along the steps ({_signs(contrasts, reference)}), with bootstrap intervals {over(unit)}; each panel has "
        "its own scale. Early latents are mostly noise: the x₀ prediction is the one to read. "
        + _FILLED.format(alpha=alpha)
    )
    return Drawn("gap-steps", figure, "Gap along the denoising steps", caption, wide=True)


def draw_decoder(
    gap: pd.DataFrame, contrasts: Contrasts, reference: str, alpha: float = 0.05
) -> Drawn | None:
    """Draw the gap along the blocks of the image decoder."""
    rows = line_rows(gap)["gap-decoder"]
    sites = sorted(rows["site"].unique(), key=place)
    if len(sites) < 2:
        return None
    with style():
        figure, (axes,) = _panels(2.1, 1, SINGLE)
        _gap_lines(axes, rows, sites, contrasts, alpha)
        _name_ticks(axes, [place(site).label for site in sites])
        _name_gap(figure, axes, contrasts)
    caption = f"Gap along the image decoder ({_signs(contrasts, reference)}). {_FILLED.format(alpha=alpha)}"
    return Drawn("gap-decoder", figure, "Gap along the blocks of the image decoder", caption)


def draw_similarity(
    disparity: pd.DataFrame,
    timesteps: dict[int, float],
    pairs: list[str],
    unit: str = "prompt",
    paired: bool = True,
) -> Drawn | None:
    """Draw the similarity of pairs along the steps, each with a colour and a dash of its own."""
    drawn = pairs[:MOST]
    rows = disparity[(disparity["metric"] == "cosine") & (disparity["step"] >= 0)]
    sites = [(title, sites[0]) for title, sites in STEP_PANELS if (rows["site"] == sites[0]).any()]
    if not sites:
        return None
    names = [f"({', '.join(map(label, pair.split('-')))})" for pair in drawn]
    with style():
        legend_rows = max(1, int(np.ceil(len(drawn) / (4 if max(map(len, names), default=0) <= 24 else 2))))
        figure, panels = _panels(2.15 + 0.16 * legend_rows, len(sites))
        for axes, (title, site) in zip(panels, sites):
            own = rows[rows["site"] == site]
            steps = sorted(int(step) for step in own["step"].unique())
            for number, (pair, name) in enumerate(zip(drawn, names)):
                _line(axes, own[own["pair"] == pair].set_index("step").reindex(steps), "mean", number, name)
            axes.set_title(f"{title}, guided" if site.endswith("guided") else title, loc="left")
            _step_axis(axes, steps, timesteps)
        panels[0].set_ylabel("cosine similarity")
        _legend(figure, panels[0], columns=int(np.ceil(len(drawn) / legend_rows)))
    noise = "All members of a triplet start from the same noise, so every latent begins at similarity 1."
    own_noise = "Every image has its own noise, so latents begin at similarity 0."
    caption = f"Similarity of each pair along the steps, mean {over(unit)} with bootstrap intervals. "
    caption += noise if paired else own_noise
    if drawn != pairs:
        caption += f" The first {len(drawn)} of {len(pairs)} pairs; the others are in tables/disparity."
    return Drawn("similarity-steps", figure, "Similarity of each pair along the steps", caption, wide=True)


def _panels(height: float, count: int, width: float = DOUBLE) -> tuple[Figure, Sequence[Axes]]:
    figure = new_figure(width, height)
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _signs(contrasts: Contrasts, reference: str) -> str:
    if len(contrasts) == 1:
        first, second = map(label, contrasts[0])
        return f"positive: {label(reference)} nearer to {first}; negative: nearer to {second}"
    return f"positive: {label(reference)} nearer to the first named of a contrast"


def _line(axes: Axes, line: pd.DataFrame, column: str, number: int, name: str, **marks) -> None:
    """Plot a column with its interval, in the colour and dash of its number."""
    color, x = PALETTE[number % len(PALETTE)], np.arange(len(line))
    axes.plot(x, line[column], color=color, ls=DASHES[number % len(DASHES)], label=name, **marks)
    axes.fill_between(x, line["ci_low"], line["ci_high"], color=color, alpha=0.16, lw=0)


def _gap_lines(
    axes: Axes,
    rows: pd.DataFrame,
    index: Sequence,
    contrasts: Contrasts,
    alpha: float,
    dash: int = 0,
    part: str = "",
) -> None:
    """Plot the gap over ``index`` (sites or steps), a colour a contrast, filled points beyond words.

    The first dash has its interval.
    """
    x, extent = np.arange(len(index)), []
    for number, contrast in enumerate(contrasts):
        line = rows[rows["contrast"] == "-".join(contrast)].drop_duplicates("site").set_index("site")
        line = line.reindex(index)
        color = PALETTE[number % len(PALETTE)]
        named = " − ".join(map(label, contrast)) + (f", {part}" if part else "")
        gap, low, high = (line[name].to_numpy(float) for name in ("gap", "ci_low", "ci_high"))
        extent += [*gap]
        if not dash:
            axes.fill_between(x, low, high, color=color, alpha=0.22, lw=0)
            extent += [*low, *high]
        filled = np.flatnonzero(beyond_words(line["p_control_sites"], alpha))
        marks = {"marker": "o", "ms": 2.8, "mfc": "none", "mew": 0.8} if len(index) <= 14 else {}
        shown = part if part and len(contrasts) == 1 else named
        axes.plot(x, gap, color=color, ls=DASHES[dash], lw=1.0 if dash else 1.3, label=shown, **marks)
        axes.plot(x[filled], gap[filled], "o", color=color, ms=2.8, mew=0)
    if not dash:
        axes.axhline(0, color=INK, lw=0.6, zorder=0.9)
    axes.update_datalim([(0, value) for value in limits(extent)])
    axes.autoscale_view()


def _name_ticks(axes: Axes, names: list[str], most: int = 14) -> None:
    """Name about so many ticks at most, evenly from the first on, and the last."""
    every, last = max(1, int(np.ceil(len(names) / most))), len(names) - 1
    keep = [*range(0, max(1, last - every + 1), every), last] if last else [0]
    rotation = 30 if max(map(len, names)) > 5 else 0
    axes.set_xticks(keep, [names[i] for i in keep], rotation=rotation, ha="right" if rotation else "center")


def _step_axis(axes: Axes, steps: list[int], timesteps: dict[int, float]) -> None:
    chosen = range(0, len(steps), max(1, int(np.ceil(len(steps) / 6))))
    axes.set_xticks([*chosen], [step_label(steps[i], timesteps) for i in chosen])
    axes.set_xlabel("call / timestep")


def _name_gap(figure: Figure, axes: Axes, contrasts: Contrasts) -> None:
    """Name the contrast at the axis where there is one, in a legend where there are several."""
    axes.set_ylabel("gap" if len(contrasts) != 1 else f"gap, {' − '.join(map(label, contrasts[0]))}")
    if len(contrasts) > 1:
        _legend(figure, axes)


def _legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    handles, labels = axes.get_legend_handles_labels()
    wide = LETTER * max(map(len, labels), default=0) + 0.45  # inches of a label and its line
    fitting = max(1, int(figure.get_size_inches()[0] / wide))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels), fitting))
