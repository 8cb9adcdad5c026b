"""The skins of toyworld's figures: which Monk tones they are, and how exactly they are read from pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.metrics.skin_tone import MeasuredTone, read_skin
from analysis.observe.skin.regions import TOYWORLD_SKINS, ToyworldSkin
from lab.train.detectors.pictures import make_pictures
from probes.runs.run import Run
from probes.toyworld.palette import COLOURS, INDEX, RGB

SEED = 16_000  # of the renderings


@dataclass(frozen=True)
class PictureReading:
    """Reading of a picture beside its ground truth.

    ``skin`` (0 to 2) is what it shows; of a generated image the palette colour nearest to what is read. ``region``
    counts pixels that are read, ``inside`` those of them that were drawn as skin (all, where nobody knows), ``exact``
    all that were drawn as skin.
    """

    skin: int
    status: str
    tone: MeasuredTone
    region: int
    inside: int
    exact: int


def palette_tones() -> list[MeasuredTone]:
    """Readings of the three colours themselves."""
    return [read_skin([COLOURS[name]]) for name in TOYWORLD_SKINS]


def rendered(count: int, *, through_vae: bool) -> list[PictureReading]:
    """Readings of renderings of the null world, as they are or as the autoencoder gives them back."""
    pictures = make_pictures(count, SEED, through_vae=float(through_vae))
    exact = np.stack([pictures.indices == INDEX[name] for name in TOYWORLD_SKINS])
    skins = exact.sum((2, 3)).argmax(0)
    masks = [exact[skin, row] for row, skin in enumerate(skins)]
    read = _read(pictures.images)
    empty = np.zeros(pictures.indices.shape[1:], bool)
    regions = [empty if mask is None else mask for mask in ToyworldSkin().masks(list(pictures.images))]
    return [
        PictureReading(
            int(skin), status, tone, int(region.sum()), int((region & mask).sum()), int(mask.sum())
        )
        for skin, (status, tone), region, mask in zip(skins, read, regions, masks)
    ]


def generated(run: Run, count: int) -> list[PictureReading]:
    """Readings of the first images of a run."""
    ids = list(run.samples(["sample_id"])["sample_id"][:count])
    return of_images(np.stack([np.asarray(image) for image in run.images(ids)]))


def of_images(images: NDArray[np.uint8]) -> list[PictureReading]:
    """Readings of pictures ``(n, 64, 64, 3)`` of which nobody knows more."""
    return [
        PictureReading(_nearest_skin(tone), status, tone, tone.pixels, tone.pixels, tone.pixels)
        for status, tone in _read(images)
    ]


def _read(images: NDArray[np.uint8]) -> list[tuple[str, MeasuredTone]]:
    regions = ToyworldSkin().regions(list(images))
    return [(region.status, read_skin(region.pixels)) for region in regions]


def _nearest_skin(tone: MeasuredTone) -> int:
    if np.isnan(tone.lab).any():
        return -1
    known = np.array([one.lab for one in palette_tones()])
    return int(np.linalg.norm(known - np.array(tone.lab), axis=1).argmin())


def errors(read: Sequence[PictureReading], skin: int) -> NDArray[np.float64]:
    """Distances of what is read to the palette's colour, ``(n, 4)``: of L*, a*, b* and of the angle."""
    known = palette_tones()[skin]
    return np.array(
        [
            [*np.subtract(one.tone.lab, known.lab), one.tone.ita - known.ita]
            for one in read
            if one.skin == skin and one.status == "ok"
        ]
    ).reshape(-1, 4)


def colour_of(skin: int) -> str:
    """The colour of a skin as text, such as ``(255, 201, 164)``."""
    return str(tuple(int(level) for level in RGB[INDEX[TOYWORLD_SKINS[skin]]]))
