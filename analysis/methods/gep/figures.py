"""Figures of gender presentation differences, of one run or of several side by side.

After figures 1 to 7 of Zhang et al. 2023, with intervals and noise floors, which the paper does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from analysis.methods.gep.inference import over_units
from analysis.methods.gep.sources import POWERED
from analysis.methods.gep.tables import LABELS
from analysis.observe.features.attribute_audit import places
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, bare, limits, new_figure, style
from analysis.report.format import fixed, label
from analysis.study import indicators
from analysis.tables.spec import Measured
from probes.runs.run import Run

LINEAR = 0.05  # frequency differences within it are on a linear scale, as below it chance rules
EXAMPLES = 4  # images of each attribute and word
PIXELS = 96  # of the longer side of an image
SPACE = 3  # pixels between two
MARKS = "osv^DP*X<>dphH8"
_READ = "first == @first and second == @second and source == @source"
_LABELLED = "first == @first and second == @second and labels == @source"


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
    return Drawn("gep-agreement", figure, "GEP: estimates against labels", caption, wide=len(others) > 1)


def around_zero(values: pd.Series) -> tuple[float, float]:
    """Return limits that hold 0 and all values; those of one that is 0 throughout are wide enough to say so."""
    return limits([*values, 0], pad=0.1) if (values != 0).any() else (-LINEAR, LINEAR)


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


def draw_fit(shown: Measured) -> Drawn | None:
    """Draw every model's GEP score against how well its images fit their prompts; of several runs."""
    first, second, source = (shown.words[name] for name in ("first", "second", "source"))
    fits = shown.rows("gep_clip_score", "indicator in [@first, @second] and n_images > 0")
    rows = []
    for row in shown.rows("gep_score", _READ).to_dict("records") if len(shown.runs) > 1 else ():
        own = fits[(fits["model"] == row["model"]) & (fits["setting"] == row["setting"])]
        if len(own):
            clip = float(np.average(own["clip_score"], weights=own["n_images"]))
            rows.append({**row, "clip": clip})
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
    return Drawn("gep-clip-score", figure, "GEP and CLIPScore", caption, wide=True)


def draw_examples(shown: Measured) -> Drawn | None:
    """Draw a strip of images for every attribute that prompts name and every main indicator, with its frequency.

    Contexts are taken evenly over all there are, each with the first seed that it has for every indicator; of one run.
    """
    run, source = shown.run, shown.words["source"]
    names = [member.name for member in indicators(run.config) if not member.control]
    triplets = _example_triplets(run, names)
    if not triplets or len(shown.runs) > 1 or not run.config.compares:
        return None
    frequency = shown.rows("gep_frequencies", "source == @source and setting == 'explicit'")
    frequency = frequency.set_index(["attribute", "indicator"])["frequency"].to_dict()
    strips = [[_strip(run.images(chosen[name])) for name in names] for chosen in triplets.values()]
    height, width = np.max([one.shape[:2] for row in strips for one in row], axis=0)
    with style():
        cell = (DOUBLE - 0.75) / len(names)
        figure = new_figure(DOUBLE, 0.3 + len(strips) * (cell * height / width + 0.2))
        panels = figure.subplots(len(strips), len(names), squeeze=False)
        for axes_row, attribute, row in zip(panels, triplets, strips):
            for axes, name, strip in zip(axes_row, names, row):
                axes.imshow(strip, interpolation="nearest")
                bare(axes)
                if (attribute, name) in frequency:
                    axes.set_xlabel(fixed(frequency[attribute, name], 2), labelpad=1.5)
            axes_row[0].set_ylabel(label(attribute) or "none named", rotation=0, ha="right", va="center")
        for axes, name in zip(panels[0], names):
            axes.set_title(label(name))
    caption = (
        "Images of the prompts that name each attribute, the same contexts and seeds in every column, and how often "
        f"the attribute is in all images of such prompts, as read by {label(source)}; first, where there are any, "
        "images of prompts that name none (after Zhang et al. 2023, figures 3 and 4)."
    )
    return Drawn("gep-frequencies", figure, "GEP: examples of each attribute", caption, wide=True)


def _example_triplets(run: Run, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """By attribute the samples of some triplets, a column an indicator."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    samples = samples[samples["indicator"].isin(names) & ~samples["sample_id"].isin(list(run.left_out()))]
    wide = samples.pivot(index=["triplet", "seed"], columns="indicator", values="sample_id").dropna()
    first = wide.reset_index("seed", drop=True).groupby(level="triplet").first()
    named = pd.DataFrame(places(run.config))
    named = named[named["triplet"].isin(first.index)].groupby("named", sort=False)["triplet"]
    chosen = {}
    for attribute, triplets in named:
        step = np.linspace(0, len(triplets) - 1, min(EXAMPLES, len(triplets))).round().astype(int)
        chosen[attribute] = first.loc[triplets.iloc[step]]
    return chosen


def draw_ratio(shown: Measured) -> Drawn | None:
    """Draw how far each estimate depends on the word; of one run."""
    first, second, labels = (shown.words[name] for name in ("first", "second", "source"))
    of_all = shown.rows("gep_ratio", f"{_LABELLED} and attribute == ''").set_index("source")
    if len(shown.runs) > 1 or of_all["ratio"].isna().all():
        return None
    with style():
        figure = new_figure(DOUBLE / 2, 0.8 + 0.3 * len(of_all))
        bars, places = figure.subplots(), range(len(of_all))
        bars.hlines(places, of_all["low"], of_all["high"], color=PALETTE[0], lw=1.8)
        bars.plot(of_all["ratio"], places, "o", color=PALETTE[0], ms=4, clip_on=False)
        bars.set_yticks(places, of_all.index)
        bars.set_ylim(len(of_all) - 0.5, -0.5)
        bars.set_xlim(left=0)
        bars.set_xlabel("mean absolute ratio, less error")
    caption = (
        "How far each estimate depends on the word. The difference between images with an attribute from "
        f"{label(first)} and from {label(second)} prompts is divided by that between images with and without it, by "
        f"{label(labels)}; mean over attributes of the absolute ratio less what errors add (dot), with its interval "
        "over contexts (after Zhang et al. 2023, figure 7). Smaller is better."
    )
    return Drawn("gep-ratio", figure, "GEP: estimates and words", caption)


def _strip(images: Sequence[Image.Image]) -> NDArray[np.uint8]:
    """Images side by side on transparent ground."""
    small = []
    for image in images:
        one = image.convert("RGBA")
        one.thumbnail((PIXELS, PIXELS))
        small.append(np.asarray(one))
    height = max((one.shape[0] for one in small), default=1)
    strip = np.zeros((height, max(sum(one.shape[1] + SPACE for one in small) - SPACE, 1), 4), np.uint8)
    left = 0
    for one in small:
        strip[: one.shape[0], left : left + one.shape[1]] = one
        left += one.shape[1] + SPACE
    return strip


def draw_artificial(shown: Measured) -> Drawn | None:
    """Draw the estimates of the examples of an artificial set against their known differences; of one run."""
    first, second = shown.words["first"], shown.words["second"]
    table = shown.rows("gep_artificial", _LABELLED).iloc[: None if len(shown.runs) == 1 else 0]
    sources = [name for name in ("detected", "C", "CC", "CLS") if name in set(table["source"])]
    attributes = list(dict.fromkeys(table["attribute"]))
    if not sources:
        return None
    with style():
        figure = new_figure(min(DOUBLE, 1.6 + 1.75 * len(sources)), 2.5)
        panels = figure.subplots(1, len(sources), squeeze=False)[0]
        for axes, source in zip(panels, sources):
            own = table[table["source"] == source]
            for number, name in enumerate(attributes):
                rows = own[own["attribute"] == name]
                axes.plot(
                    rows["labelled"],
                    rows["estimated"],
                    MARKS[number % len(MARKS)],
                    ms=2.6,
                    alpha=0.7,
                    mew=0,
                    color=PALETTE[number % len(PALETTE)],
                    label=label(name),
                )
            axes.axhline(0, color=FAINT, lw=0.7, zorder=0)
            axes.axvline(0, color=FAINT, lw=0.7, zorder=0)
            axes.set_xlim(-1, 1)
            axes.set_ylim(*around_zero(own["estimated"].dropna()))
            axes.set_xticks([-1, 0, 1])
            axes.set_title(label(source), loc="left")
            axes.locator_params(axis="y", nbins=4)
        panels[0].set_ylabel("estimated difference")
        figure.supxlabel("known difference", fontsize=8)
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside right upper", markerscale=1.6, handlelength=1
        )
    caption = (
        f"Artificial sets: groups of {label(first)} and {label(second)} images put together with known differences of "
        "an attribute, and what each estimate says of them (after Zhang et al. 2023, figure 6). Attributes whose marks "
        "rise at another slope cannot be compared by this estimate."
    )
    return Drawn(
        "gep-artificial", figure, "GEP: estimates of known differences", caption, wide=len(sources) > 1
    )
