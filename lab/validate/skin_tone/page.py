"""The page docs/validation/skin_tone.md, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from analysis.metrics.skin_tone import MONK, lab_colours, monk_colours, typology_angle
from lab.templates import render
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
from lab.validate.skin_tone.toyworld import PictureReading, colour_of, errors, palette_tones

RULES = ("tone", "tone_ciede2000", "tone_dalleval2023")


def page(kinds: dict[str, Sequence[PictureReading]], figure: str, run: str) -> str:
    """Return the page: readings of pictures by kind, the figure's name, how the generated pictures were drawn."""
    return render(
        "skin_tone",
        figure=figure,
        run=run,
        colours=colours(),
        draws=f"{DRAWS:,}",
        noise=noise(),
        files=readings(as_files()),
        lights=", ".join(f"{name} ({what})" for name, what in LIGHTS.items()),
        lit=readings(in_lights("bradford")),
        guessed=readings(guessed("bradford")),
        skins=[(colour_of(number), tone) for number, tone in enumerate(palette_tones())],
        found=[(kind, len(read), *found(read)) for kind, read in kinds.items()],
        pictures=[
            {"kind": kind, "skin": skin + 1, **errors_of(read, skin)}
            for kind, read in kinds.items()
            for skin in range(len(palette_tones()))
        ],
    )


def colours() -> list[dict[str, Any]]:
    """Return the ten colours, and how far each is from the next by angle and by CIEDE2000."""
    lab = lab_colours(monk_colours())
    apart = [*zip(*gaps(), strict=True), ()]  # nothing comes after the last
    return [
        {"code": code, "lab": of, "angle": float(typology_angle(of)), "next": steps}
        for code, of, steps in zip(MONK, lab, apart, strict=True)
    ]


def noise() -> list[tuple[float, str, Iterable[float]]]:
    """Return how often each tone is read right where the mean colour of a region is off."""
    return [
        (sigma, rule, shares)
        for sigma in NOISES
        for rule, shares in zip(("angle", "CIEDE2000"), shares_right(sigma), strict=True)
    ]


def readings(cards: Iterable[CardPhoto]) -> list[tuple[str, list[list[int | None]]]]:
    """Return what is read from the card by each rule, a row for each way of seeing it."""
    return [(seen.name, [[getattr(tone, rule) for tone in seen.tones] for rule in RULES]) for seen in cards]


def errors_of(read: Sequence[PictureReading], skin: int) -> dict[str, Any]:
    """Return how one of toyworld's skins is read from pictures: errors of the colour, and counts of tones by rule."""
    of_skin, off, known = [one for one in read if one.skin == skin], errors(read, skin), palette_tones()[skin]
    return {
        "n": len(of_skin),
        "read": len(off),
        "off": [(float(values.mean()), float(values.std())) for values in off.T],
        "counts": [_counts(of_skin, rule, getattr(known, rule)) for rule in RULES],
    }


def _counts(read: Sequence[PictureReading], rule: str, right: int | None) -> list[tuple[int | None, int]]:
    """Return how many were read as which tone, the palette's first."""
    counts = Counter(getattr(one.tone, rule) for one in read if one.status == "ok")
    return sorted(counts.items(), key=lambda one: (one[0] != right, -one[1]))


def found(read: Sequence[PictureReading]) -> tuple[Counter[str], float | None, float | None]:
    """Return statuses, and in percent how much of what is read was drawn as skin and how much of that is read."""
    statuses, inside = Counter(one.status for one in read), sum(one.inside for one in read)
    if not any(one.exact != one.region for one in read):
        return statuses, None, None
    return statuses, *(100 * (inside / sum(getattr(one, of) for one in read)) for of in ("region", "exact"))
