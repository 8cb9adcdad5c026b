"""A sheet of triplets: the same sentence and the same noise, one column an indicator."""

from __future__ import annotations

import textwrap

import numpy as np
from PIL import Image

from analysis.report.figures.style import DOUBLE, Drawn, new_figure, style
from analysis.report.format import label

NARROW = 0.8  # inches: in narrower columns names stand upright
LONGEST_PROMPT = 110  # characters: five lines beside an image


def draw_triplets(
    rows: list[tuple[str, list[Image.Image]]], columns: list[str], paired: bool = True
) -> Drawn | None:
    """Draw images, one row a prompt and seed."""
    if not rows:
        return None
    label_width = 1.45  # inches
    side = min(1.0, (DOUBLE - label_width) / len(columns))
    with style():
        figure = new_figure(label_width + side * len(columns), side * len(rows) + 0.25)
        figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
        grid = figure.subplots(
            len(rows), len(columns) + 1, squeeze=False, width_ratios=[label_width, *[side] * len(columns)]
        )
        for axes in grid.ravel():
            axes.set_axis_off()
        for line, (prompt, images) in zip(grid, rows):
            text = textwrap.fill(label(prompt, LONGEST_PROMPT), 22)
            line[0].text(0, 0.5, text, transform=line[0].transAxes, va="center")
            for axes, image in zip(line[1:], images):
                axes.imshow(np.asarray(image.convert("RGB")), interpolation="nearest")
        for axes, name in zip(grid[0][1:], columns if len(columns) > 1 else ()):
            narrow = side < NARROW
            axes.set_title(
                label(name, 20) if narrow else textwrap.fill(label(name), 12), rotation=90 * narrow
            )
    if len(columns) == 1:
        caption = "Images generated from the first prompts, in order; none was chosen by its looks."
        return Drawn("triplets", figure, "Images: one row a prompt and seed", caption, wide=True)
    noise = "and the same noise; only the indicator differs" if paired else "each with its own noise"
    caption = f"Images generated from the same sentence {noise}."
    return Drawn(
        "triplets", figure, "Triplets: one row a prompt and seed, one column an indicator", caption, wide=True
    )
