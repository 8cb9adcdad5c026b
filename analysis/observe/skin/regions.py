"""Regions of skin in an image: of toyworld's figures by palette, or everywhere; of faces see `faces`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from skimage.color import rgb2lab

from analysis.observe.objects.models.toyworld_checker import ToyworldChecker, require_size
from analysis.observe.observer import ImageModel
from probes.toyworld.checker import PERSON, PLACES, drop_isolated, read_colours
from probes.toyworld.palette import COLOURS, INDEX

# Pixels of one of the three skins, with at least 5 of 8 neighbours of the same colour, inside a figure, that count as
# skin. Of 300 renderings, masked and gloved ones among them, all show at least 35; without their figures none shows
# any.
LEAST_SKIN = 15
TOYWORLD_SKINS = ("skin_1", "skin_2", "skin_3")
_ALWAYS = tuple(name for name in COLOURS if name.startswith(("hair_", "plain_", "white", "black")))


@dataclass(frozen=True)
class Region:
    """The skin of an image: its pixels, ``(n, 3)`` uint8 RGB.

    ``status`` is ``ok``, ``no face`` or ``no skin``. ``reason`` says why there are none, or which of several faces it
    is; ``landmarks`` are ``(68, 2)``, x and y, of the face where it was found by them.
    """

    status: str
    pixels: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.uint8))
    reason: str = ""
    landmarks: np.ndarray | None = None


class SkinSource(ImageModel):
    """Finder of the skin of images, by no model and from all pixels unless a class says otherwise; `str` names it."""

    libraries: tuple[str, ...] = ("scikit-image", "opencv-python")

    def __str__(self) -> str:
        return "all pixels of the image"

    def identity(self) -> dict[str, Any]:
        """Everything that alters what is seen."""
        return {"region": "image"}

    def regions(self, images: Sequence[np.ndarray]) -> list[Region]:
        """The skin of each image, ``(height, width, 3)`` uint8 RGB."""
        return [Region("ok", image.reshape(-1, 3)) for image in images]


class ToyworldSkin(SkinSource):
    """The skin of toyworld's figures: the one of the three palette colours that the figure shows most of.

    Inside a figure a pixel is what is nearest to it in L*a*b* of the colours that the image can show: of bodies and
    plain clothes, of its place, and of the things that the checker sees. Edges, where two colours mix, are left out as
    the checker leaves them out.
    """

    version = "toyworld-skin/1"

    def __str__(self) -> str:
        return "skin of toyworld's figures, by its palette"

    def identity(self) -> dict[str, Any]:
        """The versions of the checker and of the choice of pixels."""
        return {"region": "toyworld", "checker": f"{ToyworldChecker.detector}, {self.version}"}

    def regions(self, images: Sequence[np.ndarray]) -> list[Region]:
        """Skin of the figure of each image."""
        require_size(images, "observe.skin_tone.region: toyworld", "choose face-alignment")
        regions = []
        for image, mask in zip(images, self.masks(images)):
            if mask is None:
                regions.append(Region("no face", reason="no figure"))
            elif mask.sum() < LEAST_SKIN:
                regions.append(
                    Region("no skin", reason=f"{mask.sum()} pixels of skin, fewer than {LEAST_SKIN}")
                )
            else:
                regions.append(Region("ok", image[mask]))
        return regions

    def masks(self, images: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        """Masks ``(64, 64)`` bool of the skin of the figure of each image; None where there is no figure."""
        masks = []
        for image, result in zip(images, ToyworldChecker().detect(images, [()] * len(images))):
            things = {detection.label: detection.mask for detection in result.detections}
            figure = things.pop(PERSON, None)
            masks.append(None if figure is None else _main_skin(image, figure, [*things]))
        return masks


def _main_skin(image: np.ndarray, figure: np.ndarray, things: Sequence[str]) -> np.ndarray:
    """Mask of the one of the three skins that a figure shows most of, edges left out."""
    colours = read_colours(image[None])[0]
    place = max(
        PLACES, key=lambda name: np.isin(colours, [INDEX[f"{name}_wall"], INDEX[f"{name}_floor"]]).sum()
    )
    names = [*TOYWORLD_SKINS, *_ALWAYS, f"{place}_wall", f"{place}_floor", *things]
    known = rgb2lab(np.array([COLOURS[name] for name in names]) / 255.0)
    nearest = ((rgb2lab(image)[:, :, None] - known) ** 2).sum(-1).argmin(-1)
    masks = drop_isolated(np.stack([(nearest == number) & figure for number in range(len(TOYWORLD_SKINS))]))
    return masks[masks.sum((1, 2)).argmax()]
