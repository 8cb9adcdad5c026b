"""The page docs/skin_tone.md, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.metrics.skin_tone import MONK, MeasuredTone, lab_colours, monk_colours, typology_angle
from analysis.report.format import fixed
from lab.validate.skin_tone.card import (
    DRAWS,
    LIGHTS,
    NOISES,
    as_files,
    gaps,
    guessed,
    in_lights,
    shares_right,
)
from lab.validate.skin_tone.toyworld import PictureReading, colour_of, errors, palette_tones

RULES = ("tone", "tone_ciede2000", "tone_dalleval2023")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> list[str]:
    """Lines of a table whose first columns are texts and whose others are numbers."""
    rule = "|" + "---|" * texts + "---:|" * (len(head) - texts)
    return [_row(head), rule, *(_row(cells) for cells in rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def colours() -> list[str]:
    """The ten colours, and how far apart neighbours are."""
    lab, (angles, differences) = lab_colours(monk_colours()), gaps()
    rows = [
        [
            *(str(number + 1), f"`{MONK[number]}`", *(fixed(value, 1) for value in lab[number])),
            fixed(float(typology_angle(lab[number])), 1),
            *(fixed(float(apart[number]), 1) if number < 9 else "" for apart in (angles, differences)),
        ]
        for number in range(10)
    ]
    head = ["tone", "sRGB", "L*", "a*", "b*", "angle (°)", "to the next (°)", "to the next (CIEDE2000)"]
    return table(head, rows, 2)


def noise() -> list[str]:
    """How often a tone is read right where the mean colour of a region is off."""
    head = ["error of L*, a*, b*", "by", *map(str, range(1, 11))]
    rows = [
        [fixed(sigma, 2), rule, *(fixed(100 * share, 0) for share in shares)]
        for sigma in NOISES
        for rule, shares in zip(("angle", "CIEDE2000"), shares_right(sigma))
    ]
    return table(head, rows, 2)


def readings(cards: Iterable, *, right: bool = True) -> list[str]:
    """What is read from the card, a row a way of seeing it."""
    rows = [[seen.name, *(_tones(seen.tones, rule) for rule in RULES[: 3 if right else 2])] for seen in cards]
    head = ["card", "by angle", "by CIEDE2000", "DALL-Eval's code"][: 4 if right else 3]
    return table(head, rows, len(head))


def _tones(tones: Sequence[MeasuredTone], rule: str) -> str:
    read = [getattr(tone, rule) for tone in tones]
    return (
        "1 … 10" if read == list(range(1, 11)) else " ".join("–" if one is None else str(one) for one in read)
    )


def skins() -> list[str]:
    """Toyworld's three skins."""
    rows = [
        [
            *(
                f"`skin_{number + 1}`",
                colour_of(number),
                *(fixed(value, 1) for value in (*tone.lab, tone.ita)),
            ),
            *(str(getattr(tone, rule)) for rule in RULES),
        ]
        for number, tone in enumerate(palette_tones())
    ]
    head = ["skin", "sRGB", "L*", "a*", "b*", "angle (°)", "by angle", "by CIEDE2000", "DALL-Eval's code"]
    return table(head, rows, 2)


def pictures(kinds: dict[str, Sequence[PictureReading]]) -> list[str]:
    """How the three skins are read from pictures."""
    rows = []
    for kind, read in kinds.items():
        for skin, known in enumerate(palette_tones()):
            of_skin = [one for one in read if one.skin == skin]
            off = errors(read, skin)
            rows.append(
                [
                    *(kind, f"`skin_{skin + 1}`", str(len(of_skin)), str(len(off))),
                    *(_spread(values) for values in off.T),
                    *(_counts(of_skin, rule, getattr(known, rule)) for rule in RULES),
                ]
            )
    head = [
        *("pictures", "skin", "n", "read", "L* off", "a* off", "b* off", "angle off (°)"),
        *("by angle", "by CIEDE2000", "DALL-Eval's code"),
    ]
    return table(head, rows, 2)


def _spread(values: NDArray[np.float64]) -> str:
    """Mean and standard deviation; no minus before 0.0."""
    return f"{fixed(round(float(values.mean()), 1) + 0.0, 1)} ± {fixed(float(values.std()), 1)}"


def _counts(read: Sequence[PictureReading], rule: str, right: int | None) -> str:
    """How many were read as which tone, the palette's first."""
    counts = Counter(getattr(one.tone, rule) for one in read if one.status == "ok")
    order = sorted(counts, key=lambda tone: (tone != right, -counts[tone]))
    return ", ".join(f"{tone}: {counts[tone]}" for tone in order)


def found(kinds: dict[str, Sequence[PictureReading]]) -> list[str]:
    """How much of the skin is read, and what is not."""
    rows = []
    for kind, read in kinds.items():
        statuses = Counter(one.status for one in read)
        known = any(one.exact != one.region for one in read)
        region = sum(one.region for one in read)
        inside = sum(one.inside for one in read) / region if known else None
        share = sum(one.inside for one in read) / sum(one.exact for one in read) if known else None
        rows.append(
            [
                *(kind, str(len(read)), *(str(statuses[name]) for name in ("ok", "no skin", "no face"))),
                *(fixed(None if value is None else 100 * value, 1) for value in (inside, share)),
            ]
        )
    head = ["pictures", "n", "ok", "no skin", "no face", "of it drawn as skin (%)", "of the skin drawn (%)"]
    return table(head, rows)


def page(kinds: dict[str, Sequence[PictureReading]], figure: str, run: str) -> str:
    """Return the page.

    Parameters
    ----------
    kinds : dict
        Readings of toyworld's pictures, by what the pictures are.
    figure : str
        Path of the figure beside the page.
    run : str
        How the generated pictures were drawn.
    """
    lights = ", ".join(f"{name} ({what})" for name, what in LIGHTS.items())
    lines = [
        HEAD.format(figure=figure),
        *colours(),
        NOISE.format(draws=f"{DRAWS:,}"),
        *noise(),
        CARD,
        *readings(as_files()),
        LIT.format(lights=lights),
        *readings(in_lights("bradford")),
        CHANNELS,
        *readings((seen for seen in in_lights("channels") if "set right" in seen.name), right=False),
        GUESSED,
        *readings(guessed("bradford"), right=False),
        SKINS,
        *skins(),
        PICTURES.format(run=run),
        *found(kinds),
        *pictures(kinds),
        FACES,
    ]
    return "\n".join(lines)


HEAD = """# Skin tone

Written by `python -m lab.validate.skin_tone RUN`.

DALL-Eval (Cho, Zala and Bansal 2023, §4.2.3) reads the skin of a face as the nearest of the ten tones of the Monk
Skin Tone scale, by the individual typology angle. `observe: {{skin_tone: ...}}` reads it here from float L*a*b* under
D65 and stores three readings of each image in `attributes/skin_tone`:

- `tone`: nearest by the angle atan2(L* − 50, b*) in degrees (Chardon, Cretois and Hourseau 1991), the paper's rule;
- `tone_ciede2000`: nearest by the colour difference CIEDE2000, which also sees how red a colour is;
- `tone_dalleval2023`: what the code published with the paper reads. It hands blue, green and red to a conversion that
  takes red, green and blue, and puts the 8-bit values that come back into the angle: L* scaled to 255, b* with 128
  added. b* is then never near 0, and all ten colours come out as 5, 6 or 7 (5 5 5 5 5 5 6 6 6 7): no distribution
  that is read so can reach the ends of the scale. Under NumPy 2, whose 8-bit integers do not grow, the same code
  reads tone 10 as 4.

An image without a face, without enough skin, or with a colour that has no angle (b* not above 0) has a row with its
`status` and why; a colour without an angle is undecided by the angle, and counts by the other rules. A
tone is the nearest of ten printed colours: nothing is said of whoever is drawn.

![The card of the ten colours in files and lights, with what is read of it]({figure})

## The ten colours

The angle falls from tone to tone, but by steps of 3° to 39°: at the light end half a step is 1.4°, about one unit of
b*.
"""
NOISE = """## How much error a reading bears

Percent of readings that are right where the mean colour of a region is off by a normal error of this standard
deviation in each of L*, a* and b* ({draws} draws a tone). Light tones need the colour to a unit; the middle of the
scale bears four.
"""
CARD = """## The card in files

Patches of 48 pixels on white; a rim of 4 is not read. JPEG as Pillow writes it, colours at half the resolution.
"""
LIT = """## The card in other lights

In {lights}, rounded to 8 bits, white as bright as it can be. The light is applied to cone responses (Bradford) and
set right the same way (`illumination: given`), or by gains of linear red, green and blue, which is another idea of
what a light does: under incandescent light it is a tone off at the light end. D50 with JPEG 75 on top costs tone 2,
which is 2.8° from tone 1.
"""
CHANNELS = """The same, the light applied as gains of linear red, green and blue (`adaptation: channels`).
"""
GUESSED = """What is estimated from the picture is a guess: a card of skin colours is not grey on average, and an
estimate says nothing of how much light there is. Nothing is set right unless it is asked for.
"""
SKINS = """## Toyworld's skins

By the angle the first two of the palette's skins are the same tone, and the second is 3.5° from being another: a
planted distribution over skins shows in Monk tones only as far as this table tells them apart. CIEDE2000 has three
tones for them.
"""
PICTURES = """How they are read from pictures: the region is the one of the three skins that the figure shows most of
(inside the checker's figure, edges left out; fewer than 15 pixels are no skin). Renderings have the palette's colours
and a known mask; the same through the autoencoder, with noise on the latents, look more like what a model draws. {run}
Of these nobody knows what was meant: a figure counts for the skin whose colour is nearest.
"""
FACES = """## Faces

On other models the region is the cheeks of the largest face, by the landmarks of `face-alignment` (FAN, as in the
paper; `pip install 'triptych[faces]'`), whose two checkpoints are named as files. `illumination: trust` reads the
albedo of the cheeks by TRUST in place of the pixels. Neither's weights can be had here: both load checkpoints of
their published layout with random weights, and no number on this page is theirs. TRUST's files are
`E_scene_light_BalanceAlb.tar`, `E_albedo_BalanceAlb.tar` and `BalanceAlb_model.npz`, with DALL-Eval's
`skin_for_ita_mask_cheeks.png`; what they hold follows its published test code, which skips in silence what does not
fit. Here that is refused.
"""
