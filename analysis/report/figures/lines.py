"""Gaps and similarities as lines: along the text layers, along the steps, along the image decoder."""

from __future__ import annotations

import numpy as np
import pandas as pd

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
from analysis.report.format import counted, label, over
from hooks.architectures.addresses import place

STEP_PANELS = (
    ("latent", ("latent",)),
    ("noise prediction", ("noise_pred.guided", "noise_pred.conditional", "noise_pred.unconditional")),
    ("x₀ prediction", ("x0_pred",)),
)
LETTER = 0.055  # inches of a letter in a legend
MOST = 12  # lines of a panel: more are not distinguished
Contrasts = list[tuple[str, str]]


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
    with style():
        figure = new_figure(DOUBLE, 2.05)
        panels = figure.subplots(1, len(readouts), squeeze=False)[0]
        for axes, readout in zip(panels, readouts):
            chosen = rows[rows["metric"] == f"cosine_{readout}"]
            _gap_lines(axes, chosen, sites, contrasts, alpha)
            axes.set_title(f"{readout} readout", loc="left")
            _name_ticks(
                axes,
                [place(site).label.replace("layer ", "").replace("embeddings", "emb.") for site in sites],
                most=21 // len(readouts),
            )
            axes.set_xlabel("layer of the text encoder")
        _name_gap(figure, panels[0], contrasts)
    caption = (
        f"Gap along the text encoder ({_signs(contrasts, reference)}), with bootstrap intervals {over(unit)}. "
        f"Each readout has its own scale: padding dominates sequence, and words leaves the "
        f"indicator out. {_FILLED.format(alpha=alpha)}"
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
    with style():
        figure = new_figure(DOUBLE, 2.25)
        panels = figure.subplots(1, len(present), squeeze=False)[0]
        for axes, (title, sites) in zip(panels, present):
            steps = sorted(int(step) for step in rows["step"].unique())
            for dash, site in enumerate(sites):
                _gap_lines(
                    axes,
                    rows[rows["site"] == site].assign(site=lambda t: t["step"]),
                    steps,
                    contrasts,
                    alpha,
                    dash=DASHES[dash],
                    part=site.partition(".")[2] if len(sites) > 1 else "",
                    main=dash == 0,
                )
            axes.set_title(title, loc="left")
            _step_axis(axes, steps, timesteps)
            if len(sites) > 1 and len(contrasts) == 1:
                axes.legend(loc="best", handlelength=2.6)
        _name_gap(figure, panels[0], contrasts)
    caption = (
        f"Gap along the steps ({_signs(contrasts, reference)}), with bootstrap intervals {over(unit)}; each "
        f"panel has its own scale. Early latents are mostly noise: the x₀ prediction is the one to read. "
        f"{_FILLED.format(alpha=alpha)}"
    )
    return Drawn("gap-steps", figure, "Gap along the denoising steps", caption, wide=True)


def draw_sites(
    gap: pd.DataFrame,
    timesteps: dict[int, float],
    contrast: tuple[str, str],
    reference: str,
    unit: str = "prompt",
    alpha: float = 0.05,
) -> Drawn | None:
    """Draw the gap of some sites: a line along the steps each, or, of sites without steps, a line along the sites.

    As many panels as it takes for lines to be distinguished. The first metric is drawn; sites without it, or without
    steps beside others that have them, are named as left out. None where no row is of the contrast.
    """
    gap = gap[gap["contrast"] == "-".join(contrast)]
    if gap.empty:
        return None
    metric = gap["metric"].iloc[0]
    rows = gap[gap["metric"] == metric]
    stepped = rows[rows["step"] >= 0]
    sites = sorted((rows if stepped.empty else stepped)["site"].unique(), key=place)
    left_out = sorted(set(gap["site"]) - set(sites), key=place)
    parts = [sites] if stepped.empty else [sites[at : at + MOST] for at in range(0, len(sites), MOST)]
    with style():
        figure = new_figure(DOUBLE, 0.6 + 2.2 * len(parts))
        panels = figure.subplots(len(parts), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
        axes = panels[0]
        if stepped.empty:
            _gap_lines(axes, rows, sites, [contrast], alpha)
            _name_ticks(axes, [place(site).label for site in sites])
        else:
            steps = sorted(int(step) for step in stepped["step"].unique())
            for axes, part in zip(panels, parts):
                for number, site in enumerate(part):
                    line = stepped[stepped["site"] == site].set_index("step").reindex(steps)
                    color, dash = PALETTE[number % len(PALETTE)], DASHES[number % len(DASHES)]
                    x = np.arange(len(steps))
                    axes.plot(x, line["gap"], color=color, ls=dash, label=site, marker="o", ms=2.4)
                    axes.fill_between(x, line["ci_low"], line["ci_high"], color=color, alpha=0.15, lw=0)
                axes.axhline(0, color=INK, lw=0.6, zorder=0.9)
                axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
            _step_axis(axes, steps, timesteps)
        if left_out:
            panels[0].set_title(f"{metric}; left out: {counted(len(left_out), 'site')}", loc="left")
        for axes in panels:
            axes.set_ylabel(f"gap, {' − '.join(map(label, contrast))}")
    why = metric if stepped.empty else f"{metric} along the steps"
    more = f" Left out, without {why}: {', '.join(left_out)}." if left_out else ""
    caption = (
        f"Gap of {metric} ({_signs([contrast], reference)}), with bootstrap intervals {over(unit)}.{more}"
    )
    return Drawn("gap-sites", figure, "Gap of chosen sites", caption, wide=True)


def draw_decoder(
    gap: pd.DataFrame, contrasts: Contrasts, reference: str, alpha: float = 0.05
) -> Drawn | None:
    """Draw the gap along the blocks of the image decoder."""
    rows = line_rows(gap)["gap-decoder"]
    sites = sorted(rows["site"].unique(), key=place)
    if len(sites) < 2:
        return None
    with style():
        figure = new_figure(SINGLE, 2.1)
        axes = figure.add_subplot()
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
    drawn = pairs if len(pairs) <= MOST else pairs[:MOST]
    rows = disparity[(disparity["metric"] == "cosine") & (disparity["step"] >= 0)]
    panels_sites = [(title, sites[0]) for title, sites in STEP_PANELS if (rows["site"] == sites[0]).any()]
    if not panels_sites:
        return None
    with style():
        longest = max((len(f"({', '.join(map(label, pair.split('-')))})") for pair in drawn), default=0)
        legend_rows = max(1, int(np.ceil(len(drawn) / (4 if longest <= 24 else 2))))
        figure = new_figure(DOUBLE, 2.15 + 0.16 * legend_rows)
        panels = figure.subplots(1, len(panels_sites), squeeze=False)[0]
        for axes, (title, site) in zip(panels, panels_sites):
            here = rows[rows["site"] == site]
            steps = sorted(int(step) for step in here["step"].unique())
            for index, pair in enumerate(drawn):
                line = here[here["pair"] == pair].set_index("step").reindex(steps)
                color = PALETTE[index % len(PALETTE)]
                x = np.arange(len(steps))
                dash, name = DASHES[index % len(DASHES)], f"({', '.join(map(label, pair.split('-')))})"
                axes.plot(x, line["mean"], color=color, ls=dash, label=name)
                axes.fill_between(x, line["ci_low"], line["ci_high"], color=color, alpha=0.18, lw=0)
            axes.set_title(f"{title}, guided" if site.endswith("guided") else title, loc="left")
            _step_axis(axes, steps, timesteps)
        panels[0].set_ylabel("cosine similarity")
        _legend(figure, panels[0], columns=int(np.ceil(len(drawn) / legend_rows)))
    caption = (
        f"Similarity of each pair along the steps, mean {over(unit)} with bootstrap intervals. "
        + (
            "All members of a triplet start from the same noise, so every latent begins at similarity 1."
            if paired
            else "Every image has its own noise, so latents begin at similarity 0."
        )
        + (
            f" The first {len(drawn)} of {len(pairs)} pairs; the others are in tables/disparity."
            if drawn != pairs
            else ""
        )
    )
    return Drawn("similarity-steps", figure, "Similarity of each pair along the steps", caption, wide=True)


_FILLED = (
    "Filled points: over all words the gap is more than synonyms differ among themselves (p < {alpha:g} after "
    "adjustment over sites and steps)."
)


def _signs(contrasts: Contrasts, reference: str) -> str:
    if len(contrasts) == 1:
        first, second = map(label, contrasts[0])
        return f"positive: {label(reference)} nearer to {first}; negative: nearer to {second}"
    return f"positive: {label(reference)} nearer to the first named of a contrast"


def _gap_lines(axes, rows, index, contrasts, alpha, dash="-", part: str = "", main: bool = True) -> None:
    """Plot gap and interval over ``index`` (sites or steps), a colour a contrast, filled points beyond words."""
    x = np.arange(len(index))
    reach = []
    for number, contrast in enumerate(contrasts):
        name = "-".join(contrast)
        line = rows[rows["contrast"] == name].drop_duplicates("site").set_index("site").reindex(index)
        color = PALETTE[number % len(PALETTE)]
        named = " − ".join(map(label, contrast)) + (f", {part}" if part else "")
        low, high = line["ci_low"].to_numpy(float), line["ci_high"].to_numpy(float)
        if main:
            axes.fill_between(x, low, high, color=color, alpha=0.22, lw=0)
        filled = np.flatnonzero(beyond_words(line["p_control_adjusted"], alpha))
        width = 1.3 if main else 1.0
        marker = {"marker": "o", "ms": 2.8, "mfc": "none", "mew": 0.8} if len(index) <= 14 else {}
        shown = part if part and len(contrasts) == 1 else named
        axes.plot(x, line["gap"], color=color, ls=dash, lw=width, label=shown, **marker)
        axes.plot(x[filled], line["gap"].to_numpy(float)[filled], "o", color=color, ms=2.8, mew=0)
        reach += [*line["gap"].to_numpy(float), *(low if main else ()), *(high if main else ())]
    if main:
        axes.axhline(0, color=INK, lw=0.6, zorder=0.9)
    axes.update_datalim([(0, v) for v in limits(reach)])
    axes.autoscale_view()


def _name_ticks(axes, names: list[str], most: int = 14) -> None:
    """Name about so many ticks at most, evenly from the first on, and the last."""
    every, last = max(1, int(np.ceil(len(names) / most))), len(names) - 1
    keep = [*range(0, max(1, last - every + 1), every), last] if last else [0]
    rotation = 30 if max(map(len, names)) > 5 else 0
    axes.set_xticks(keep, [names[i] for i in keep], rotation=rotation, ha="right" if rotation else "center")


def _step_axis(axes, steps: list[int], timesteps: dict[int, float]) -> None:
    every = max(1, int(np.ceil(len(steps) / 6)))
    chosen = list(range(0, len(steps), every))
    axes.set_xticks(chosen, [step_label(steps[i], timesteps) for i in chosen])
    axes.set_xlabel("call / timestep")


def _name_gap(figure, axes, contrasts: Contrasts) -> None:
    """Name the contrast at the axis where there is one, in a legend where there are several."""
    axes.set_ylabel("gap" if len(contrasts) != 1 else f"gap, {' − '.join(map(label, contrasts[0]))}")
    if len(contrasts) > 1:
        _legend(figure, axes)


def _legend(figure, axes, columns: int = 3) -> None:
    handles, labels = axes.get_legend_handles_labels()
    wide = LETTER * max(map(len, labels), default=0) + 0.45  # inches of a label and its line
    fitting = max(1, int(figure.get_size_inches()[0] / wide))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels), fitting))
