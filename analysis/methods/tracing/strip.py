"""Images of a trace on the report: the strip of patched images, and the triplets of the first screen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from analysis.methods.tracing.figures import patch_name, short_share
from analysis.report.figures.style import Drawn, bare, new_figure, style
from analysis.report.first_screen import ends_and_middle
from analysis.report.format import label, number
from analysis.report.method import Example, ExamplePicture
from analysis.study import indicators
from probes.runs.images import read_image
from probes.runs.parts import read_part
from probes.runs.run import Run

STRIP_PROMPTS = 2
HEADING = "Total effect: {outcome} of {first} less that of {second}"
CHOSEN = (
    "The prompts with the smallest, the middle and the largest total effect; under an image: its {outcome}. Nothing is "
    "patched in these images."
)


@dataclass(frozen=True)
class StripRow:
    """Images of one prompt and donor, each with its outcome: reference, donor, then patched ones."""

    text: str
    images: Sequence[Image.Image]
    outcomes: Sequence[float]


def strip_of(
    run: Run, shares: pd.DataFrame, outcomes: pd.DataFrame, words: Sequence[str]
) -> tuple[list[StripRow], list[str]]:
    """Prompts at which the words move the outcome farthest, at the places of the largest and smallest share.

    Rows, and the heads of their columns; none where shares are undefined.
    """
    sites = shares[(shares["kind"] == "site") & shares["sufficiency"].notna()] if len(shares) else shares
    if sites.empty:
        return [], []
    ends = [sites.loc[sites["sufficiency"].idxmax()], sites.loc[sites["sufficiency"].abs().idxmin()]]
    reference = run.config.reference
    wide = outcomes.pivot(index=["triplet", "seed"], columns="variant", values="value")
    rows: list[StripRow] = []
    for donor in words:
        names = [f"none:{reference}", f"none:{donor}"]
        names += [f"site:{end['site']}:{donor}>{reference}" for end in ends]
        if not set(names) <= set(wide):
            continue
        apart = (wide[names[1]] - wide[names[0]]).where(wide[names].notna().all(axis=1)).abs().dropna()
        chosen = apart.sort_values(ascending=False, kind="stable").index[:STRIP_PROMPTS]
        images = _images(run, {(*key, name) for key in chosen for name in names})
        spoken = {member.name: member.word for member in indicators(run.config)}
        prompts = _prompts(run, reference)
        rows += [
            StripRow(
                f"{prompts[key[0]]} (donor: {spoken[donor]})",
                [images[(*key, name)] for name in names],
                [float(wide.at[key, name]) for name in names],
            )
            for key in chosen
        ]
    heads = [reference, "donor"]
    heads += [
        f"{text} share: {patch_name(end)}" for text, end in zip(("largest", "smallest"), ends, strict=True)
    ]
    return rows, heads


def lead_examples(run: Run, outcomes: pd.DataFrame, words: Sequence[str]) -> list[Example]:
    """Triplets with the smallest, the middle and the largest total effect, with the outcome of each image."""
    reference, (first, second) = run.config.reference, words
    variants = {name: f"none:{name}" for name in (second, reference, first)}
    wide = outcomes.pivot(index=["triplet", "seed"], columns="variant", values="value")
    if not set(variants.values()) <= set(wide):
        return []
    wide = wide[list(variants.values())].dropna()
    total = (wide[variants[first]] - wide[variants[second]]).sort_values(kind="stable")
    chosen = [total.index[place] for place in ends_and_middle(len(total)).values()]
    images = _images(run, {(*key, variant) for key in chosen for variant in variants.values()})
    prompts = _prompts(run, reference)
    return [
        Example(
            "total effect",
            float(total[key]),
            number(total[key], 2, signed=True),
            prompts[key[0]],
            [
                ExamplePicture(
                    images[*key, variant],
                    prompts[key[0]],
                    name,
                    number(wide.at[key, variant], 2, signed=True),
                )
                for name, variant in variants.items()
            ],
        )
        for key in chosen
    ]


def _prompts(run: Run, reference: str) -> dict[int, str]:
    samples = run.samples(["triplet", "indicator", "prompt"])
    samples = samples[samples["indicator"] == reference].drop_duplicates("triplet")
    return dict(zip(samples["triplet"], samples["prompt"]))


def _images(run: Run, wanted: set[tuple[int, int, str]]) -> dict[tuple[int, int, str], Any]:
    """Images of a trace by triplet, seed and variant."""
    found = {}
    for file in run.parts("traced"):
        keys = read_part(file, ["triplet", "seed", "variant"]).to_pylist()
        rows = [row for row, key in enumerate(keys) if tuple(key.values()) in wanted]
        if rows:
            stored = read_part(file, ["image"]).take(rows)["image"].to_pylist()
            found |= {tuple(keys[row].values()): read_image(one["bytes"]) for row, one in zip(rows, stored)}
    return found


def captions(outcome: str, words: Sequence[str]) -> tuple[str, str]:
    """Captions of the examples: their numbers, and how they were chosen."""
    first, second = words
    return HEADING.format(outcome=outcome, first=first, second=second), CHOSEN.format(outcome=outcome)


def draw_strip(rows: Sequence[StripRow], columns: Sequence[str], outcome: str) -> Drawn | None:
    """Images of the reference, of a donor, and of the reference with the donor's activations."""
    if not rows:
        return None
    label_width, side = 1.6, 1.15  # inches
    with style():
        figure = new_figure(label_width + side * len(columns), (side + 0.2) * len(rows) + 0.45)
        figure.get_layout_engine().set(w_pad=0.03, h_pad=0.02, wspace=0, hspace=0)
        widths = [label_width, *[side] * len(columns)]
        grid = figure.subplots(len(rows), len(columns) + 1, squeeze=False, width_ratios=widths)
        for axes in grid.ravel():
            bare(axes)
        for line, row in zip(grid, rows):
            text = textwrap.fill(label(row.text, 110), 24)
            line[0].text(0, 0.5, text, transform=line[0].transAxes, va="center")
            for axes, image, value in zip(line[1:], row.images, row.outcomes):
                axes.imshow(np.asarray(image.convert("RGB")), interpolation="nearest")
                axes.set_xlabel(short_share(value), fontsize=7, labelpad=1.5)
        for axes, name in zip(grid[0][1:], columns):
            axes.set_title(textwrap.fill(label(name, 60), 18), fontsize=7.5)
    caption = (
        f"The same noise in each row; beneath each image its {outcome}. The prompts are those at which the words move "
        "it most. Patched: the reference’s run with the donor’s activations at one place alone."
    )
    return Drawn("trace-strip", figure, "Reference, donor and patched images", caption, wide=True)
