"""Regions of skin in an image: of toyworld's figures by palette, of a face by landmarks, or everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from skimage.color import rgb2lab
from skimage.draw import polygon2mask

from analysis.observe.objects.models.toyworld_checker import ToyworldChecker, require_size
from analysis.observe.skin.faces import FaceAlignment
from probes.toyworld.checker import PERSON, PLACES, drop_isolated, read_colours
from probes.toyworld.palette import COLOURS, INDEX

# Pixels of one of the three skins, with at least 5 of 8 neighbours of the same colour, inside a figure, that count as
# skin. Of 300 renderings, masked and gloved ones among them, all show at least 35; without their figures none shows
# any.
LEAST_SKIN = 15
TOYWORLD_SKINS = ("skin_1", "skin_2", "skin_3")
_ALWAYS = tuple(name for name in COLOURS if name.startswith(("hair_", "plain_", "white", "black")))
# Of the 68 landmarks (iBUG 300-W) from 0, jaw 0-16, nose 27-35, eyes 36-47, mouth 48-67: those
# below an eye, beside nose and mouth, and along the jaw; drawn in by a quarter, away from hair and edges
_CHEEKS = ((1, 41, 40, 31, 48, 4, 3, 2), (15, 46, 47, 35, 54, 12, 13, 14))
_DRAWN_IN = 0.75


@dataclass(frozen=True)
class Region:
    """The skin of an image: its pixels, ``(n, 3)`` uint8 RGB.

    ``status`` is ``ok``, ``no face`` or ``no skin``. ``reason`` says why there are none, or which of several faces it
    is; ``landmarks`` are ``(68, 2)``, x and y, of the face where it was found by them.
    """

    status: str
    pixels: np.ndarray
    reason: str = ""
    landmarks: np.ndarray | None = None


class SkinSource:
    """Finder of the skin of images, by no model and from all pixels unless a class says otherwise; `str` names it."""

    files: Sequence[Path] = ()  # the weights of its models
    libraries: tuple[str, ...] = ("scikit-image", "opencv-python")

    def __str__(self) -> str:
        return "all pixels of the image"

    def fields(self) -> dict[str, Any]:
        """Everything that alters what is seen."""
        return {"region": "image"}

    def load(self) -> None:
        """Load the models."""

    def regions(self, images: Sequence[np.ndarray]) -> list[Region]:
        """The skin of each image, ``(height, width, 3)`` uint8 RGB."""
        return [Region("ok", image.reshape(-1, 3)) for image in images]


def _nothing(status: str, reason: str, landmarks: np.ndarray | None = None) -> Region:
    return Region(status, np.zeros((0, 3), np.uint8), reason, landmarks)


class ToyworldSkin(SkinSource):
    """The skin of toyworld's figures: the one of the three palette colours that the figure shows most of.

    Inside a figure a pixel is what is nearest to it in L*a*b* of the colours that the image can show: of bodies and
    plain clothes, of its place, and of the things that the checker sees. Edges, where two colours mix, are left out as
    the checker leaves them out.
    """

    version = "toyworld-skin/1"

    def __str__(self) -> str:
        return "skin of toyworld's figures, by its palette"

    def fields(self) -> dict[str, Any]:
        """The versions of the checker and of the choice of pixels."""
        return {"region": "toyworld", "checker": f"{ToyworldChecker.detector}, {self.version}"}

    def regions(self, images: Sequence[np.ndarray]) -> list[Region]:
        """Skin of the figure of each image."""
        require_size(images, "observe.skin_tone.region: toyworld", "choose face-alignment")
        return [_of_toyworld(image, mask) for image, mask in zip(images, self.masks(images))]

    def masks(self, images: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        """Masks ``(64, 64)`` bool of the skin of the figure of each image; None where there is no figure."""
        seen = ToyworldChecker().detect(images, [()] * len(images))
        things = [{one.label: one.mask for one in each.detections} for each in seen]
        return [
            _main_skin(image, masks[PERSON], [name for name in masks if name != PERSON])
            if PERSON in masks
            else None
            for image, masks in zip(images, things)
        ]


def _of_toyworld(image: np.ndarray, mask: np.ndarray | None) -> Region:
    if mask is None:
        return _nothing("no face", "no figure")
    if mask.sum() < LEAST_SKIN:
        return _nothing("no skin", f"{mask.sum()} pixels of skin, fewer than {LEAST_SKIN}")
    return Region("ok", image[mask])


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


class FaceSkin(SkinSource):
    """The cheeks of an image's largest face by its landmarks."""

    libraries = (*SkinSource.libraries, "torch", "face-alignment")

    def __init__(self, landmarker: FaceAlignment):
        self.landmarker = landmarker

    @property
    def files(self) -> list[Path]:  # type: ignore[override]
        """The weights of both networks."""
        return [*self.landmarker.paths.values()]

    def __str__(self) -> str:
        return f"cheeks of the largest face, {self.landmarker}"

    def fields(self) -> dict[str, Any]:
        """Return the region of skin, and the models."""
        return {"region": "face-alignment", "skin": "cheeks", **self.landmarker.fields()}

    def load(self) -> None:
        """Load the models."""
        self.landmarker.load()

    def regions(self, images: Sequence[np.ndarray]) -> list[Region]:
        """Skin of the largest face of each image."""
        return [self._of(image, self.landmarker.faces(image)) for image in images]

    def _of(self, image: np.ndarray, faces: Sequence[np.ndarray]) -> Region:
        if not len(faces):
            return _nothing("no face", "no face was found")
        face = max(faces, key=lambda points: float(np.ptp(points, axis=0).prod()))
        pixels = image[cheek_mask(face, image.shape[:2])]
        if not len(pixels):
            return _nothing("no skin", "the face is too small, or lies outside the image", face)
        return Region("ok", pixels, f"the largest of {len(faces)} faces" if len(faces) > 1 else "", face)


def cheek_mask(landmarks: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Mask of the cheeks of a face, ``shape`` bool, from its landmarks ``(68, 2)``, x and y in pixels (iBUG 300-W)."""
    mask = np.zeros(shape, bool)
    for numbers in _CHEEKS:
        points = landmarks[[*numbers]]
        middle = points.mean(0)
        mask |= polygon2mask(shape, (middle + _DRAWN_IN * (points - middle))[:, ::-1])
    return mask
