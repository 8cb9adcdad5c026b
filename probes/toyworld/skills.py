"""PaintSkills in two dimensions: the objects of its scenes, and their exact checker.

A picture is read by nearest palette colour (`probes.toyworld.checker`). Pixels of an object's colour belong together
that lie within one pixel of each other, since lines of black and white are drawn across some objects; they are an
object where there are at least `SHARE` of the pixels of that colour in its sprite. Scenes keep objects four pixels
apart (`lab.validate.skills.scenes`), so that in a rendering two never are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import ndimage

from probes.toyworld.checker import read_colours
from probes.toyworld.draw import sprite
from probes.toyworld.palette import INDEX

VERSION = "toyworld-skills-checker/1"
OBJECTS = (
    *("dog", "cat", "ball", "box", "chair", "bag", "flower", "guitar", "rack", "book", "cup", "kite"),
    *("bird", "lamp", "clock"),
)  # of the set of prompts `toyworld-skills`
SHARE = 0.4
_EIGHT = np.ones((3, 3), dtype=bool)


@cache
def least(name: str) -> float:
    """Return how many pixels of its colour are an object."""
    return SHARE * float((sprite(name) == INDEX[name]).sum())


def read_objects(images: np.ndarray | Sequence) -> list[list[tuple[str, np.ndarray]]]:
    """Return the objects in each 64 × 64 RGB picture, class by class and from top to bottom.

    An object is its name and its mask ``(64, 64)`` bool, the pixels of its colour.
    """
    found: list[list[tuple[str, np.ndarray]]] = []
    for picture in read_colours(images) if len(images) else ():
        found.append([])
        for name in OBJECTS:
            colour = picture == INDEX[name]
            together, number = ndimage.label(ndimage.binary_dilation(colour, _EIGHT), _EIGHT)
            masks = (colour & (together == which) for which in range(1, number + 1))
            found[-1] += [(name, mask) for mask in masks if mask.sum() >= least(name)]
    return found
