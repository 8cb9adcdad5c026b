"""The figure of the card: the ten colours as they are, after JPEG and in several lights, with what is read of each."""

from __future__ import annotations

import io
from collections.abc import Sequence

from lab.validate.skin_tone.card import CardPhoto, card

INK, FAINT = "#1b1b1b", "#5f5f5f"


def figure(rows: Sequence[CardPhoto]) -> bytes:
    """A row of ten patches for each way of seeing the card, as PNG.

    The number in a patch is the tone that is read by angle, framed where it is another than the one that it is;
    the small one below what the paper's code reads.
    """
    from matplotlib.figure import Figure

    places = card()[1]
    drawing = Figure(figsize=(9.4, 0.62 * len(rows) + 0.9), dpi=110, layout="constrained")
    axes = drawing.subplots()
    for row, seen in enumerate(rows):
        for column, (place, tone) in enumerate(zip(places, seen.tones)):
            left, top = column * 1.02, row * 1.12
            axes.imshow(seen.image[place], extent=(left, left + 1, top + 1, top), interpolation="nearest")
            ink = INK if seen.image[place].mean() > 110 else "white"
            wrong = tone.tone != column + 1
            text = "–" if tone.tone is None else str(tone.tone)
            axes.text(
                *(left + 0.5, top + 0.36, text),
                **{"ha": "center", "va": "center", "color": ink, "fontsize": 13},
                weight="bold" if not wrong else "normal",
                bbox={"boxstyle": "round,pad=0.12", "fill": False, "edgecolor": ink, "linewidth": 1.2}
                if wrong
                else None,
            )
            paper = "–" if tone.tone_dalleval2023 is None else str(tone.tone_dalleval2023)
            axes.text(
                *(left + 0.5, top + 0.8, paper),
                **{"ha": "center", "va": "center", "color": ink, "fontsize": 8},
            )
        axes.text(-0.12, row * 1.12 + 0.5, seen.name, ha="right", va="center", fontsize=9.5, color=INK)
    for column in range(10):
        axes.text(column * 1.02 + 0.5, -0.16, str(column + 1), ha="center", fontsize=9.5, color=FAINT)
    axes.text(-0.12, -0.16, "Monk tone", ha="right", fontsize=9.5, color=FAINT)
    axes.set(xlim=(-0.05, 10.2), ylim=(1.12 * len(rows), -0.42))
    axes.set_aspect("auto")
    axes.axis("off")
    axes.set_title(
        "Read by angle (large; framed where it is wrong) and by the code of DALL-Eval (small)",
        fontsize=10.5,
        color=INK,
        loc="left",
    )
    data = io.BytesIO()
    drawing.savefig(data, format="png", metadata={"Software": None})
    return data.getvalue()
