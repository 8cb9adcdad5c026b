"""A card of the ten Monk colours, seen in several ways, and what each reading makes of it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from analysis.metrics.illumination import DAYLIGHT, ESTIMATES, adapted, estimated_white, white_of
from analysis.metrics.skin_tone import (
    MeasuredTone,
    lab_colours,
    monk_colours,
    nearest_by_angle,
    nearest_by_difference,
    read_skin,
    typology_angle,
)

SIDE, GAP, EDGE = 48, 8, 4  # pixels: of a patch, of the white around it, of a patch's rim that is not read
QUALITY = 75  # of JPEG
LIGHTS = {
    "A": "an incandescent lamp, 2856 K",
    "D50": "warm daylight, 5000 K",
    "D75": "light of the north sky, 7500 K",
    "F11": "a fluorescent lamp, 4000 K",
}
NOISES = (1.0, 2.0)
DRAWS, SEED = 2000, 0
Places = list[tuple[slice, slice]]


@dataclass(frozen=True)
class CardPhoto:
    """A card as a camera or a file gives it, ``(height, width, 3)`` uint8, with the readings of its ten patches."""

    name: str
    image: NDArray[np.uint8]
    tones: list[MeasuredTone]


def card() -> tuple[NDArray[np.uint8], Places]:
    """The card, ten patches on white in two rows, and where they are read."""
    image = np.full((2 * SIDE + 3 * GAP, 5 * SIDE + 6 * GAP, 3), 255, np.uint8)
    places = []
    for number, colour in enumerate(monk_colours()):
        top, left = (GAP + step * (SIDE + GAP) for step in divmod(number, 5))
        image[top : top + SIDE, left : left + SIDE] = colour
        places.append(
            (slice(top + EDGE, top + SIDE - EDGE), slice(left + EDGE, left + SIDE - EDGE)),
        )
    return image, places


def as_jpeg(image: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """The image after JPEG at a quality, colours at half the resolution as Pillow has them by default."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def in_light(image: NDArray[np.uint8], light: str) -> NDArray[np.uint8]:
    """The image in another light, rounded to 8 bits, white as bright as it can be."""
    return np.rint(255 * adapted(image, DAYLIGHT, white_of(light), "bradford")).astype(np.uint8)


def as_files() -> Iterator[CardPhoto]:
    """The card as it is, and after JPEG."""
    image, places = card()
    yield _seen("as it is", image, places)
    yield _seen(f"JPEG, quality {QUALITY}", as_jpeg(image, QUALITY), places)


def in_lights() -> Iterator[CardPhoto]:
    """The card in each light, by cone responses (Bradford): as it is, and corrected by the known light."""
    for light in LIGHTS:
        image, places = card()
        lit = in_light(image, light)
        yield _seen(light, lit, places)
        yield _seen(f"{light}, corrected", lit, places, white_of(light))


def guessed() -> Iterator[CardPhoto]:
    """The card in the farthest light, corrected by what is estimated from the picture."""
    image, places = card()
    light = next(iter(LIGHTS))
    lit = in_light(image, light)
    for method in ESTIMATES:
        yield _seen(f"{light}, {method}", lit, places, estimated_white(lit, method))


def _seen(
    name: str, image: NDArray[np.uint8], places: Places, white: NDArray[np.float64] | None = None
) -> CardPhoto:
    patches = [image[place].reshape(-1, 3) for place in places]
    if white is not None:
        patches = [adapted(patch, white, adaptation="bradford") for patch in patches]
    return CardPhoto(name, image, [read_skin(patch) for patch in patches])


def gaps() -> NDArray[np.float64]:
    """Difference of angles from each tone to the next, in degrees, ``(9,)``."""
    return -np.diff(typology_angle(lab_colours(monk_colours())))


def shares_right(noise: float) -> NDArray[np.float64]:
    """Share of readings that are right, by angle and by CIEDE2000, of `DRAWS` draws for each tone: ``(2, 10)``.

    The mean colour of a region is off by normal errors of L*, a* and b* with standard deviation `noise`.
    """
    rng = np.random.default_rng(SEED)
    lab = lab_colours(monk_colours()) + noise * rng.standard_normal((DRAWS, 10, 3))
    lab[..., 0] = lab[..., 0].clip(0, 100)
    tones = np.arange(1, 11)
    read = (nearest_by_angle(typology_angle(lab)), nearest_by_difference(lab))
    return np.array([(one == tones).mean(0) for one in read])
