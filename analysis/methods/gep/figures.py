"""Gender presentation differences: vectors of several models, estimates against labels, and scores side by side.

After figures 1, 2, 5 and 6 of Zhang et al. 2023, with intervals and noise floors, which the paper does not have.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.methods.gep.inference import over_units
from analysis.methods.gep.powered import POWERED
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import label

LINEAR = 0.05  # frequency differences within it are on a linear scale, as below it chance rules


def draw_vectors(vectors: Mapping[str, pd.DataFrame], first: str, second: str, source: str) -> Drawn | None:
    """Draw GEP vectors by model (``tables/gep_vector``) as bars on a symmetric logarithmic scale, a panel a setting.

    Bars above 0: more frequent for the first word.
    """
    chosen = {
        name: table[(table["first"] == first) & (table["second"] == second) & (table["source"] == source)]
        for name, table in vectors.items()
    }
    settings = list(dict.fromkeys(setting for table in chosen.values() for setting in table["setting"]))
    attributes = list(dict.fromkeys(name for table in chosen.values() for name in table["attribute"]))
    if not attributes:
        return None
    units = [unit for table in chosen.values() for unit in table["unit"]]
    with style():
        figure = new_figure(DOUBLE, 0.7 + 1.75 * len(settings))
        panels = figure.subplots(len(settings), 1, squeeze=False, sharex=True)[:, 0]
        width = 0.8 / len(chosen)
        reach = 0.0
        for axes, setting in zip(panels, settings):
            for number, (name, table) in enumerate(chosen.items()):
                rows = table[table["setting"] == setting].set_index("attribute").reindex(attributes)
                place = np.arange(len(attributes)) + (number + 0.5) * width - 0.4
                color = PALETTE[number % len(PALETTE)]
                axes.bar(place, rows["difference"], 0.9 * width, color=color, label=label(name))
                axes.vlines(place, rows["low"], rows["high"], color=INK, lw=0.7)
                ends = rows[["difference", "low", "high"]].abs().to_numpy(float)
                reach = max(reach, float(np.nanmax(ends, initial=LINEAR)))
            axes.axhline(0, color=INK, lw=0.7)
            axes.set_title(setting, loc="left")
            axes.set_ylabel(f"{label(first)} − {label(second)}")
        ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1.0) if tick <= max(1.15 * reach, 0.1)]
        for axes in panels:
            axes.set_yscale("symlog", linthresh=LINEAR, linscale=0.6)
            axes.set_ylim(-1.15 * reach, 1.15 * reach)
            both = [*(-tick for tick in reversed(ticks)), 0.0, *ticks]
            axes.set_yticks(both, [f"{tick:g}".replace("-", "−") for tick in both])
            axes.minorticks_off()
        panels[-1].set_xticks(range(len(attributes)), map(label, attributes), rotation=35, ha="right")
        panels[-1].tick_params(axis="x", length=0)
        if len(chosen) > 1:
            figure.legend(
                *panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(chosen)
            )
    caption = (
        f"Difference in the frequency of each attribute between images generated from {label(first)} and from "
        f"{label(second)} prompts, as read by {label(source)}, with intervals {over_units(units)}. Symmetric "
        f"logarithmic scale, linear within ±{LINEAR:g} (after Zhang et al. 2023, figure 2)."
    )
    return Drawn("gep-vectors", figure, "GEP vectors", caption, wide=True)


def draw_estimates(vector: pd.DataFrame, first: str, second: str, labels: str) -> Drawn | None:
    """Draw each estimate's difference of each attribute against that by labels, a panel an estimate."""
    rows = vector[(vector["first"] == first) & (vector["second"] == second)]
    wide = rows.pivot(index=["setting", "attribute"], columns="source", values="difference")
    others = [
        name for name in dict.fromkeys(rows["source"]) if name != labels and " " not in name
    ]  # no variants
    if labels != "checker":  # what is made of a sample of labels is held against all of them alone
        others = [name for name in others if name != POWERED]
    if labels not in wide or not others:
        return None
    settings = list(dict.fromkeys(rows["setting"]))
    with style():
        figure = new_figure(min(DOUBLE, 0.5 + 1.75 * len(others)), 2.3)
        panels = figure.subplots(1, len(others), squeeze=False)[0]
        for axes, name in zip(panels, others):
            for number, setting in enumerate(settings):
                one = wide.loc[setting]
                axes.plot(
                    one[labels], one[name], "os"[number % 2], ms=3.5, color=PALETTE[number], label=setting
                )
            axes.axhline(0, color=FAINT, lw=0.7, zorder=0)
            axes.axvline(0, color=FAINT, lw=0.7, zorder=0)
            axes.set_xlim(*limits([*wide[labels], -LINEAR, LINEAR], pad=0.1))
            axes.set_ylim(*around_zero(wide[name]))
            axes.set_title(label(name), loc="left")
            axes.locator_params(nbins=4)
        panels[0].set_ylabel("estimated difference")
        figure.supxlabel(f"difference by {label(labels)}", fontsize=8)
        if len(settings) > 1:
            figure.legend(
                *panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, handlelength=1
            )
    caption = (
        f"What each estimate says of the difference between {label(first)} and {label(second)} prompts against what "
        f"{label(labels)} says, a mark an attribute (after Zhang et al. 2023, figure 5). Every estimate has its own "
        "scale."
    )
    return Drawn("gep-estimates", figure, "GEP: estimates against labels", caption, wide=len(others) > 1)


def around_zero(values: pd.Series) -> tuple[float, float]:
    """Return limits that hold 0 and all values; those of one that is 0 throughout are wide enough to say so."""
    return limits([*values, 0], pad=0.1) if (values != 0).any() else (-LINEAR, LINEAR)


def draw_scores(scores: Mapping[str, pd.DataFrame], first: str, second: str, source: str) -> Drawn | None:
    """Draw every model's GEP score with interval and noise floor, and the scores between synonyms."""
    rows = []
    for name, table in scores.items():
        mine = table[table["source"] == source]
        pair = mine[(mine["first"] == first) & (mine["second"] == second)]
        for row in pair.to_dict("records"):
            same = mine[(mine["kind"] == "control") & (mine["setting"] == row["setting"])]["score"]
            rows.append({**row, "model": name, "controls": same.to_list()})
    if not rows:
        return None
    rows.sort(
        key=lambda row: (row["setting"] != "neutral", row["score"])
    )  # a leaderboard: the smallest first
    names = [f"{label(row['model'])}, {row['setting']}" for row in rows]
    with style():
        figure = new_figure(DOUBLE, 1.0 + 0.24 * len(rows))
        axes = figure.subplots()
        places = range(len(rows))
        for place, row in zip(places, rows):
            ends = [row["low"], row["high"]]
            axes.plot(ends, [place, place], color=PALETTE[0], lw=1.8, solid_capstyle="butt")
        same = [(value, place) for place, row in zip(places, rows) for value in row["controls"]]
        whole = {"clip_on": False}  # a mark at 0 stands on the edge
        axes.plot([row["floor"] for row in rows], places, "|", color=INK, ms=11, label="noise floor", **whole)
        axes.plot([row["score"] for row in rows], places, "o", color=PALETTE[0], ms=4, label="score", **whole)
        if same:
            axes.plot(*zip(*same), "x", color=PALETTE[1], ms=4, label="synonyms", **whole)
        axes.set_yticks(places, names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"GEP score, {label(first)} against {label(second)}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3)
    caption = (
        f"GEP score between {label(first)} and {label(second)} prompts as read by {label(source)}: the mean absolute "
        "difference over attributes (dot), the interval of the score without what its own error adds (bar), what "
        "chance alone gives at these numbers of images (tick), and the scores between synonyms (crosses)."
    )
    return Drawn("gep-scores", figure, "GEP scores", caption, wide=True)


def draw_fit(
    scores: Mapping[str, pd.DataFrame], fits: Mapping[str, pd.DataFrame], first: str, second: str, source: str
) -> Drawn | None:
    """Draw every model's GEP score against how well its images fit their prompts, a panel a setting.

    Models without ``tables/gep_clip_score`` (`fits`) are left out.
    """
    rows = []
    for name, fit in fits.items():
        table = scores[name]
        mine = table[(table["source"] == source) & (table["first"] == first) & (table["second"] == second)]
        for row in mine.to_dict("records"):
            own = fit[(fit["setting"] == row["setting"]) & fit["indicator"].isin([first, second])]
            if own["n_images"].sum():
                clip = float(np.average(own["clip_score"], weights=own["n_images"]))
                rows.append({**row, "model": name, "clip": clip})
    if not rows:
        return None
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    with style():
        figure = new_figure(DOUBLE, 2.6)
        panels = figure.subplots(1, len(settings), squeeze=False)[0]
        for axes, setting in zip(panels, settings):
            for row in rows:
                if row["setting"] == setting:
                    number = models.index(row["model"])
                    color = PALETTE[number % len(PALETTE)]
                    axes.vlines(row["clip"], row["low"], row["high"], color=color, lw=1)
                    axes.plot(
                        row["clip"], row["score"], "os^vD"[number % 5], color=color, label=label(row["model"])
                    )
            axes.set_ylim(bottom=0)
            axes.set_title(setting, loc="left")
            axes.set_xlabel("CLIPScore")
        panels[0].set_ylabel("GEP score")
        handles = dict(zip(*reversed(panels[0].get_legend_handles_labels())))
        figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(models))
    caption = (
        f"GEP score between {label(first)} and {label(second)} prompts as read by {label(source)}, with the interval "
        "of the score without what its own error adds, against how well images fit their prompts by CLIP: a model that "
        "draws little of what it is asked for has a small score, too (after Zhang et al. 2023, figure 1)."
    )
    return Drawn("gep-fit", figure, "GEP and CLIPScore", caption, wide=True)
