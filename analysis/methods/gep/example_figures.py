"""Gender presentation differences: images of each attribute, and estimates against known differences.

After figures 3 to 6 of Zhang et al. 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from analysis.methods.gep.figures import around_zero
from analysis.report.figures.style import DOUBLE, FAINT, PALETTE, Drawn, bare, new_figure, style
from analysis.report.format import fixed, label

PIXELS = 96  # of the longer side of an image
GAP = 3  # pixels between two
MARKS = "osv^DP*X<>dphH8"


@dataclass(frozen=True)
class ExampleRow:
    """Images of the prompts that name an attribute (or, without a name, none), by indicator.

    ``frequencies`` is how often the attribute is in all images of the indicator; empty without a name.
    """

    attribute: str
    images: Mapping[str, Sequence[Image.Image]]
    frequencies: Mapping[str, float]


def draw_examples(rows: Sequence[ExampleRow], indicators: Sequence[str], source: str) -> Drawn | None:
    """Draw a strip of images for every attribute and indicator, with the attribute's frequency."""
    if not rows:
        return None
    strips = [[_strip(row.images.get(name, ())) for name in indicators] for row in rows]
    height, width = np.max([one.shape[:2] for row in strips for one in row], axis=0)
    with style():
        cell = (DOUBLE - 0.75) / len(indicators)
        figure = new_figure(DOUBLE, 0.3 + len(rows) * (cell * height / width + 0.2))
        panels = figure.subplots(len(rows), len(indicators), squeeze=False)
        for axes_row, row, of_row in zip(panels, rows, strips):
            for axes, name, strip in zip(axes_row, indicators, of_row):
                axes.imshow(strip, interpolation="nearest")
                bare(axes)
                if row.frequencies:
                    axes.set_xlabel(fixed(row.frequencies.get(name), 2), labelpad=1.5)
            axes_row[0].set_ylabel(
                label(row.attribute) if row.attribute else "none named", rotation=0, ha="right", va="center"
            )
        for axes, name in zip(panels[0], indicators):
            axes.set_title(label(name))
    caption = (
        "Images of the prompts that name each attribute, the same contexts and seeds in every column, and how often "
        f"the attribute is in all images of such prompts, as read by {label(source)}; first, where there are any, "
        "images of prompts that name none (after Zhang et al. 2023, figures 3 and 4)."
    )
    return Drawn("gep-examples", figure, "GEP: examples of each attribute", caption, wide=True)


@dataclass(frozen=True)
class SingleImages:
    """An image without an attribute and one of each word with it, and what each estimate says of them.

    ``values`` has a number for each image, by estimate.
    """

    attribute: str
    images: Sequence[Image.Image]
    values: Mapping[str, Sequence[float]]


def draw_ratio(
    ratios: pd.DataFrame, single: SingleImages, first: str, second: str, labels: str
) -> Drawn | None:
    """Draw three images with their estimates, and how far each estimate depends on the word (figure 7).

    The images are those without the attribute, of the second word with it, and of the first word with it.
    """
    chosen = (ratios["first"] == first) & (ratios["second"] == second) & (ratios["labels"] == labels)
    of_all = ratios[chosen & (ratios["attribute"] == "")].set_index("source")
    if of_all["ratio"].isna().all():
        return None
    name = label(single.attribute)
    titles = (f"no {name}", f"{label(second)}, {name}", f"{label(first)}, {name}")
    with style():
        figure = new_figure(DOUBLE, 1.9)
        *panels, bars = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.7])
        for place, (axes, title) in enumerate(zip(panels, titles)):
            axes.imshow(np.asarray(single.images[place].convert("RGB")))
            bare(axes)
            axes.set_title(title)
            said = [f"{source} {fixed(values[place], 3)}" for source, values in single.values.items()]
            axes.set_xlabel("\n".join(said), labelpad=2)
        places = range(len(of_all))
        bars.hlines(places, of_all["low"], of_all["high"], color=PALETTE[0], lw=1.8)
        bars.plot(of_all["ratio"], places, "o", color=PALETTE[0], ms=4, clip_on=False)
        bars.set_yticks(places, of_all.index)
        bars.set_ylim(len(of_all) - 0.5, -0.5)
        bars.set_xlim(left=0)
        bars.set_xlabel("mean absolute ratio, less error")
    caption = (
        "Left: what estimates say of single images, those nearest to the mean of their kind. Right: how far each "
        f"estimate depends on the word. The difference between images with an attribute from {label(first)} and from "
        f"{label(second)} prompts is divided by that between images with and without it, by {label(labels)}; mean over "
        "attributes of the absolute ratio less what errors add (dot), with its interval over contexts (after Zhang et "
        "al. 2023, figure 7). Smaller is better."
    )
    return Drawn("gep-ratio", figure, "GEP: estimates and words", caption, wide=True)


def _strip(images: Sequence[Image.Image]) -> NDArray[np.uint8]:
    """Images side by side on transparent ground."""
    small = []
    for image in images:
        one = image.convert("RGBA")
        one.thumbnail((PIXELS, PIXELS))
        small.append(np.asarray(one))
    height = max((one.shape[0] for one in small), default=1)
    strip = np.zeros((height, max(sum(one.shape[1] + GAP for one in small) - GAP, 1), 4), np.uint8)
    left = 0
    for one in small:
        strip[: one.shape[0], left : left + one.shape[1]] = one
        left += one.shape[1] + GAP
    return strip


def draw_artificial(examples: pd.DataFrame, first: str, second: str, labels: str) -> Drawn | None:
    """Draw the estimates of the examples of an artificial set against their known differences."""
    chosen = (examples["first"] == first) & (examples["second"] == second) & (examples["labels"] == labels)
    table = examples[chosen]
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
