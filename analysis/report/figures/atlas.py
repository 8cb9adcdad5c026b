"""The atlas: where in the network, and when, the gap opens. Sites down, steps across, gap as colour."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.colors import Normalize

from analysis.metrics.registry import METRICS
from analysis.report.figures.style import DIVERGING, DOUBLE, INK, Drawn, new_figure, style
from analysis.report.format import label, number
from hooks.architectures.addresses import place, readable_name

ROW_HEIGHT = 0.125  # inches: 7.5 pt labels do not touch
MAX_HEIGHT = 9.0  # inches: a page


def draw_atlas(
    gap: pd.DataFrame,
    timesteps: dict[int, float],
    contrast: tuple[str, str],
    reference: str,
    alpha: float = 0.05,
) -> Drawn | None:
    """Draw the gap of one contrast at every site that is called at every step; None where there is none.

    ``cells`` holds the drawn matrices, ``(n_sites, n_steps)``: the gap over all words with its interval where there are
    words to hold it against, else that of the indicators' own; positive where the reference is nearer to the first.
    """
    name = "-".join(contrast)
    rows = atlas_rows(gap, contrast)
    if rows.empty:
        return None
    sites = sorted(rows["site"].unique(), key=place)
    steps = sorted(int(step) for step in rows["step"].unique())

    def matrix(column: str) -> np.ndarray:
        wide = rows.pivot_table(index="site", columns="step", values=column, aggfunc="first", dropna=False)
        return wide.reindex(index=sites, columns=steps).to_numpy(float)

    tested = bool(np.isfinite(rows["p_control_sites"].to_numpy(float)).any())
    shown = ("word_gap", "word_low", "word_high") if tested else ("gap", "ci_low", "ci_high")
    cells = {name: matrix(column) for name, column in zip(("gap", "low", "high"), shown)}
    cells |= {column: matrix(column) for column in ("p_sites", "p_control_sites")}
    values = cells["gap"]
    beyond = beyond_words(cells["p_control_sites"], alpha)
    significant = cells["p_sites"] < alpha
    bound = _bound(values)

    with style():
        height = min(ROW_HEIGHT * len(sites) + 1.15, MAX_HEIGHT)
        figure = new_figure(DOUBLE, height)
        axes = figure.add_subplot()
        norm = Normalize(-bound, bound)
        mesh = axes.pcolormesh(
            np.ma.masked_invalid(values), cmap=DIVERGING, norm=norm, edgecolors="face", lw=0.1
        )
        dark = np.abs(values) > 0.7 * bound
        for chosen, filled in ((beyond, True), (significant & ~beyond, False)):
            for cells_here, color in ((chosen & ~dark, "black"), (chosen & dark, "white")):
                y, x = np.nonzero(cells_here)
                face = color if filled else "none"
                size = min(1.9 if filled else 2.4, 100 / len(steps)) ** 2
                axes.scatter(x + 0.5, y + 0.5, marker="o", s=size, facecolors=face, edgecolors=color, lw=0.45)
        _label_sites(axes, sites)
        _label_steps(axes, steps, timesteps)
        outside = np.abs(values[np.isfinite(values)]) > bound
        bar = figure.colorbar(
            mesh,
            ax=axes,
            orientation="horizontal",
            fraction=0.02,
            aspect=45,
            pad=0.012,
            extend="both" if outside.any() else "neither",
        )
        bar.outline.set_visible(False)
        named, (first, second) = label(reference), map(label, contrast)
        bar.set_label(f"gap: ← {named} nearer to {second}   ·   nearer to {first} →")
        figure.draw_without_rendering()
        box = axes.get_position()
    between = f"s({named}, {first}) − s({named}, {second})"
    if tested:
        what = (
            f"Gap of the cosine similarity over all words, {between}, corrected for how near the words of each side "
            f"are to each other,"
        )
        marks = (
            f"Filled dots: over all words the gap is more than synonyms differ among themselves (p < "
            f"{alpha:g}, Benjamini–Hochberg over all sites and steps). Rings: only the gap between the "
            f"indicators’ own words differs from 0 (p < {alpha:g}, max-T over all cells), which two words of one "
            f"meaning can do as well. {int(beyond.sum()):,} of {int(np.isfinite(values).sum()):,} cells are filled, "
            f"each a claim about one site and step; of the images and of the model as a whole, only the cards speak"
        )
    else:
        what = f"Gap of the cosine similarity, {between},"
        marks = (
            f"Rings: the gap between these words differs from 0 (p < {alpha:g}, max-T over all cells), which two "
            f"synonyms can do as well; no further words were run to hold it against"
        )
    caption = f"{what} at every site and step. {marks}. Colour is symmetric about 0" + (
        f"; {int(outside.sum())} cells lie beyond the ends of the scale." if outside.any() else "."
    )
    data = {
        "sites": [readable_name(site) for site in sites],
        "addresses": sites,
        "steps": steps,
        "timesteps": [timesteps.get(step) for step in steps],
        "box": [box.x0, 1 - box.y1, box.width, box.height],
        "first": first,
        "second": second,
        "reference": named,
        "over_words": tested,
        **cells,
    }
    title = f"Atlas of gaps, {first} − {second}: sites by steps"
    at, step = np.unravel_index(np.argmax(np.nan_to_num(np.abs(values), nan=-1.0)), values.shape)
    alt = f"{title}. Farthest from 0: {number(values[at, step], 3, True)} at {data['sites'][at]}, call {steps[step]}."
    return Drawn(f"atlas-{name}", figure, title, caption, wide=True, cells=data, alt=alt)


def beyond_words(p_sites: np.ndarray, alpha: float) -> np.ndarray:
    """Tell which cells are filled: the gap over words is more than the words differ, after adjustment."""
    return np.asarray(p_sites, float) < alpha


def atlas_rows(gap: pd.DataFrame, contrast: tuple[str, str]) -> pd.DataFrame:
    """Rows of ``tables/gap`` that the atlas shows."""
    return gap[(gap["contrast"] == "-".join(contrast)) & (gap["step"] >= 0) & (gap["metric"] == "cosine")]


def _bound(values: np.ndarray) -> float:
    """Half the colour scale: the 99th percentile of the absolute gap, so one wild cell pales nothing.

    At least the least δ of the cosine, so that gaps that do not matter stay pale.
    """
    finite = np.abs(values[np.isfinite(values)])
    return max(METRICS["cosine"].least_delta, float(np.quantile(finite, 0.99)) if finite.size else 0.0)


def _label_sites(axes, sites: list[str]) -> None:
    """Write row labels, and the groups down, mid and up beside them."""
    places = [place(site) for site in sites]
    axes.set_ylim(len(sites), 0)
    axes.set_yticks(np.arange(len(sites)) + 0.5, [where.label for where in places])
    axes.tick_params(axis="y", length=0, pad=2)
    axes.spines[:].set_visible(False)
    groups = [where.group for where in places]
    starts = [i for i, group in enumerate(groups) if i == 0 or groups[i - 1] != group]
    for start, end in zip(starts, [*starts[1:], len(groups)]):
        if start:
            axes.axhline(start, color=INK, lw=0.8)
        if groups[start] in ("down", "mid", "up"):
            transform = axes.get_yaxis_transform()
            group = axes.text(
                -0.235,
                (start + end) / 2,
                groups[start],
                transform=transform,
                rotation=90,
                weight="bold",
                ha="center",
                va="center",
            )
            group.set_in_layout(True)
            axes.plot(
                [-0.215] * 2, [start + 0.2, end - 0.2], transform=transform, color=INK, lw=0.8, clip_on=False
            )


def _label_steps(axes, steps: list[int], timesteps: dict[int, float]) -> None:
    """Write call numbers, and the timestep of each beneath."""
    axes.set_xlim(0, len(steps))
    every = max(1, int(np.ceil(len(steps) / 12)))
    chosen = list(range(0, len(steps), every))
    axes.set_xticks([i + 0.5 for i in chosen], [step_label(steps[i], timesteps) for i in chosen])
    axes.tick_params(axis="x", length=2, pad=2)
    axes.set_xlabel("call of the U-Net (above) and timestep (below)")


def step_label(step: int, timesteps: dict[int, float]) -> str:
    """Call number, and its timestep on a second line where it is known."""
    time = timesteps.get(step)
    return f"{step}" if time is None or time != time else f"{step}\n{time:.0f}"
