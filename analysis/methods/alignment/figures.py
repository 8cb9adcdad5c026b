"""FID over the sample size, and the line by which it is freed of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.alignment.tables import ALL
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label

PANELS = 3  # features that are drawn


def draw_curve(curve: pd.DataFrame, quality: pd.DataFrame) -> Drawn | None:
    """Draw mean FID of random subsets against 1 / n, a panel a feature, of all images together.

    FID of unlimited images (``tables/alignment_quality``) stands at 0.
    """
    own, measured = (table[table["indicator"] == ALL] for table in (curve, quality))
    names = list(dict.fromkeys(own["features"]))[:PANELS]
    if not names:
        return None
    with style():
        figure = new_figure(DOUBLE, 2.3)
        panels = figure.subplots(1, len(names), squeeze=False)[0]
        for number, (axes, name) in enumerate(zip(panels, names)):
            rows = own[own["features"] == name]
            row = measured[(measured["features"] == name) & (measured["measure"] == "fid_infinity")]
            value, low, high = row[["value", "low", "high"]].to_numpy(float)[0]
            inverse = 1 / rows["n_images"].to_numpy(float)
            slope = np.polyfit(inverse, rows["line"], 1)
            ends = np.array([0.0, inverse.max()])
            axes.plot(ends, np.polyval(slope, ends), color=FAINT, lw=1.0, zorder=1)
            axes.errorbar(
                inverse, rows["fid"], rows["sd"], fmt="o", ms=3, lw=0.7, color=PALETTE[number % len(PALETTE)]
            )
            ends, mark = [[value - low], [high - value]], {"fmt": "D", "ms": 4, "lw": 0.9}
            axes.errorbar([0], [value], ends, color=INK, clip_on=False, **mark)
            axes.set_xlim(left=0)
            shown = np.unique(np.linspace(0, len(rows) - 1, 3).round().astype(int))
            axes.set_xticks([0, *inverse[shown]], ["∞", *(f"{n:.0f}" for n in rows["n_images"].iloc[shown])])
            axes.set_title(label(name), loc="left")
            axes.set_xlabel("images (1 / n)")
        panels[0].set_ylabel("FID")
    caption = (
        "FID of random subsets of the prompts against the number of images on a scale of 1 / n (mean and standard"
        " deviation over subsets), the line through it, and where it meets unlimited images (diamond, with the"
        " jackknife’s interval). FID of few images is too large; the line is straight only where images are several"
        " times the dimension of the features."
    )
    return Drawn("alignment-fid", figure, "FID over the sample size", caption, wide=True)
