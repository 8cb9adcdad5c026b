"""Compare readings of skin tone with known colours: ``python -m lab.validate.skin_tone [RUN]``.

The card of the ten colours is read whenever the page is written; RUN, a generated run of toyworld, has its first images
read beside renderings. The figure is put beside the page.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lab.measured import MeasuredPage, Numbers
from lab.validate.skin_tone.card import (
    DRAWS,
    LIGHTS,
    NOISES,
    CardPhoto,
    as_files,
    gaps,
    guessed,
    in_lights,
    shares_right,
)
from lab.validate.skin_tone.figure import figure
from lab.validate.skin_tone.toyworld import (
    PictureReading,
    colour_of,
    errors,
    generated,
    palette_tones,
    rendered,
)
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.toyworld import MODELS

RULES, IMAGES = ("tone", "tone_ciede2000", "tone_dalleval2023"), 100  # of each kind


def measure(path: str) -> dict[str, Any]:
    """Readings of the first images of a run of toyworld, and of renderings; the figure is drawn again."""
    run = Run.open(path)
    if run.config.model not in MODELS:
        raise UserError(
            f"{path}: expected a run of toyworld ({', '.join(MODELS)}), got one of {run.config.model}:"
            " name another run"
        )
    write_bytes(PAGE.path.with_name(f"{PAGE.name}_card.png"), figure([*as_files(), *in_lights()]))
    kinds = {
        "renderings": rendered(IMAGES, through_vae=False),
        "through the autoencoder": rendered(IMAGES, through_vae=True),
        "generated": generated(run, IMAGES),
    }
    drawn = {"name": run.config.name, "model": run.config.model, "images": len(kinds["generated"])}
    drawn |= {"steps": run.config.sampler.steps, "dtype": run.config.generate.dtype}
    return {"run": drawn, "pictures": {kind: summary(read) for kind, read in kinds.items()}}


def summary(read: Sequence[PictureReading]) -> dict[str, Any]:
    """What is stored of the readings of one kind of pictures, over all and by skin.

    ``inside``: how much of what is read was drawn as skin, ``share``: how much of that is read, in percent, where that
    is known; ``off``: mean and standard deviation of the errors of L*, a*, b* and the angle; ``counts``: how many were
    read as which tone by each of `RULES`, the palette's first.
    """
    result: dict[str, Any] = {"n": len(read), "statuses": Counter(one.status for one in read)}
    known, inside = any(one.exact != one.region for one in read), sum(one.inside for one in read)
    for name, of in (("inside", "region"), ("share", "exact")):
        whole = sum(getattr(one, of) for one in read)
        result[name] = round(100 * inside / whole, 1) if known else None
    skins = []
    for skin, palette in enumerate(palette_tones()):
        some, off = [one for one in read if one.skin == skin], errors(read, skin)
        counts = []
        for rule in RULES:
            tones = Counter(getattr(one.tone, rule) for one in some if one.status == "ok")
            first = getattr(palette, rule)
            counts.append(sorted(tones.items(), key=lambda one, first=first: (one[0] != first, -one[1])))
        ends = [[round(float(one), 1) for one in (column.mean(), column.std())] for column in off.T]
        skins.append({"n": len(some), "read": len(off), "off": ends, "counts": counts})
    return result | {"skins": skins}


def values(numbers: Numbers) -> dict[str, Any]:
    """What the page shows: readings of the card, made now, and of pictures, as `measure` stores them."""
    return {
        **numbers,
        "lights": ", ".join(f"{name} ({what})" for name, what in LIGHTS.items()),
        "gaps": gaps(),
        "draws": DRAWS,
        "noise": [
            (sigma, rule, shares)
            for sigma in NOISES
            for rule, shares in zip(("angle", "CIEDE2000"), shares_right(sigma), strict=True)
        ],
        "cards": readings([*as_files(), *in_lights(), *guessed()]),
        "palette": [(colour_of(number), tone) for number, tone in enumerate(palette_tones())],
    }


def readings(cards: Iterable[CardPhoto]) -> list[tuple[str, list[list[int | None]]]]:
    """Return what is read from the card by each rule, a row for each way of seeing it."""
    return [(seen.name, [[getattr(tone, rule) for tone in seen.tones] for rule in RULES]) for seen in cards]


PAGE = MeasuredPage(
    "skin_tone",
    "lab.validate.skin_tone",
    "Compare readings of skin tone with known colours.",
    values,
    measure,
)

if __name__ == "__main__":
    sys.exit(PAGE.main())
