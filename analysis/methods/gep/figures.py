"""Figures of gender presentation differences, of one run or of several side by side.

After figures 2 and 5 of Zhang et al. 2023, with intervals and noise floors, which the paper does not have.
"""

from __future__ import annotations

import numpy as np

from analysis.methods.gep.inference import over_units
from analysis.methods.gep.sources import POWERED
from analysis.methods.gep.tables import LABELS
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, limits, new_figure, style
from analysis.report.format import label
from analysis.tables.spec import Measured

LINEAR = 0.05  # frequency differences within it are on a linear scale, as below it chance rules
_READ = "first == @first and second == @second and source == @source"


def draw_vectors(shown: Measured) -> Drawn | None:
    """Draw GEP vectors by model as bars on a symmetric logarithmic scale, a panel a setting.

    Bars above 0: more frequent for the first word.
    """
    first, second, source = (shown.words[name] for name in ("first", "second", "source"))
    table = shown.rows("gep_vector", _READ)
    chosen = dict(list(table.groupby("model", sort=False)))
    settings, attributes = (list(dict.fromkeys(table[name])) for name in ("setting", "attribute"))
    if not attributes:
        return None
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
        f"{label(second)} prompts, as read by {label(source)}, with intervals {over_units(table['unit'])}. Symmetric "
        f"logarithmic scale, linear within ±{LINEAR:g} (after Zhang et al. 2023, figure 2)."
    )
    return Drawn("gep-vector", figure, "GEP vectors", caption, wide=True)


def draw_estimates(shown: Measured) -> Drawn | None:
    """Draw each estimate's difference of each attribute against that by labels, a panel an estimate; of one run."""
    first, second, labels = (shown.words[name] for name in ("first", "second", "source"))
    rows = shown.rows("gep_vector", "first == @first and second == @second")
    if len(shown.runs) > 1 or labels not in LABELS:
        return None
    wide = rows.pivot(index=["setting", "attribute"], columns="source", values="difference")
    others = [
        name for name in dict.fromkeys(rows["source"]) if name != labels and " " not in name
    ]  # no variants
    if labels != "checker":  # what is made of a sample of labels is compared with all of them alone
        others = [name for name in others if name != POWERED]
    if not others:
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
            varied = (wide[name] != 0).any()  # one that is 0 throughout has limits wide enough to say so
            axes.set_ylim(*(limits([*wide[name], 0], pad=0.1) if varied else (-LINEAR, LINEAR)))
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
    return Drawn("gep-agreement", figure, "GEP: estimates against labels", caption, wide=len(others) > 1)


def draw_scores(shown: Measured) -> Drawn | None:
    """Draw every model's GEP score with interval and noise floor, and the scores between synonyms."""
    first, second, source = (shown.words[name] for name in ("first", "second", "source"))
    controls = shown.rows("gep_score", "kind == 'control' and source == @source").set_index(
        ["model", "setting"]
    )["score"]
    rows = shown.rows("gep_score", _READ).to_dict("records")
    for row in rows:
        place = row["model"], row["setting"]
        row["controls"] = controls.loc[[place]].to_list() if place in controls.index else []
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
    return Drawn("gep-score", figure, "GEP scores", caption, wide=True)
