"""The checker: reads a toyworld picture, rendered or generated, and says what is in it.

Every thing has a colour of its own, so a picture is read by nearest palette colour; edges, where two colours mix, are
dropped, and a thing counts as present when enough of its colour is left where the renderer can put it (on the ground,
in a hand, overhead; what is worn, sat or lain on: anywhere). The checker plays the human annotator. Its
accuracy on renderings is measured by :mod:`lab.train.base.measure`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from scipy import ndimage

from probes.toyworld.draw import SIZE, draw, sprite
from probes.toyworld.palette import INDEX, nearest_colours
from probes.toyworld.scene import WORN, Scene
from probes.toyworld.world import load_world

if TYPE_CHECKING:
    import pandas as pd

VERSION = "toyworld-checker/2"
# Pixels of a thing's own colour, with at least NEIGHBOURS of 8 neighbours of the same colour, that count as present:
# between the most that are found where the thing is not and the fewest where it is, on 3,000 renderings and on 1,000
# of them passed through the autoencoder. Those of guitar, rack, smartphone, book and skateboard were then lowered by
# hand, on 1,200 further renderings, their reconstructions and some 230 generated images in which they missed what
# could be seen.
NEIGHBOURS = 5
LEAST = {
    "boots": 54,
    "slippers": 6,
    "jeans": 30,
    "shorts": 32,
    "slacks": 30,
    "dress": 172,
    "skirt": 49,
    "suit": 119,
    "shirt": 72,
    "uniform": 104,
    "jacket": 58,
    "hat": 41,
    "tie": 6,
    "mask": 10,
    "gloves": 18,
    "dog": 46,
    "cat": 61,
    "ball": 42,
    "box": 71,
    "chair": 17,
    "bag": 23,
    "flower": 15,
    "guitar": 40,
    "rack": 45,
    "umbrella": 66,
    "smartphone": 8,
    "book": 30,
    "cup": 44,
    "kite": 19,
    "bird": 16,
    "lamp": 25,
    "clock": 44,
    "bike": 26,
    "horse": 26,
    "skateboard": 15,
    "table": 47,
    "bed": 97,
    "couch": 92,
}
SKIN_NAMES = ("skin_1", "skin_2", "skin_3")
# Pixels of the largest region of skin that count as a figure's: the fewest of 3,000 renderings were 35, and none had a
# region of another skin than the figure's.
LEAST_SKIN = 10
_POSITIONS = {thing: one["at"] for thing, one in load_world().objects.items()}
_CROSS = np.pad(ndimage.generate_binary_structure(2, 1)[None], ((1, 1), (0, 0), (0, 0)))
PLACES = ("studio", *load_world().places)
THINGS: tuple[str, ...] = (*LEAST, *PLACES)
PERSON = "person"
TAGS = (PERSON, *LEAST)  # of a detector
SKILLS_VERSION = "toyworld-skills-checker/1"
OBJECTS = (
    *("dog", "cat", "ball", "box", "chair", "bag", "flower", "guitar", "rack", "book", "cup", "kite"),
    *("bird", "lamp", "clock"),
)  # of the set of prompts `toyworld-skills`
SHARE = 0.4
_EIGHT = np.ones((3, 3), dtype=bool)


def read_colours(images: np.ndarray | Sequence[Image.Image]) -> np.ndarray:
    """Return the palette index nearest to each pixel's colour, uint8 ``(n, 64, 64)``, of 64 × 64 RGB images."""
    if not isinstance(images, np.ndarray):
        images = np.stack([np.asarray(image.convert("RGB")) for image in images])
    if images.ndim != 4 or images.shape[1:] != (64, 64, 3):
        raise ValueError(f"expected pictures of shape (n, 64, 64, 3), got {images.shape}")
    return nearest_colours(images)


def drop_isolated(mask: np.ndarray) -> np.ndarray:
    """Return bool masks ``(n, h, w)`` without pixels that have fewer than `NEIGHBOURS` of 8 neighbours in the mask."""
    kept, some = np.zeros_like(mask), mask.any(axis=(1, 2))  # most things are in few images
    around = ndimage.convolve(mask[some].astype(np.uint8), np.ones((1, 3, 3), np.uint8), mode="constant")
    kept[some] = mask[some] & (around > NEIGHBOURS)  # the pixel itself is counted
    return kept


@functools.cache
def drawable_area(thing: str) -> np.ndarray:
    """Return a mask, bool ``(64, 64)``, of where the renderer can draw a thing (its name), and one pixel around.

    All True for what can be anywhere: what is worn, and large objects such as a bed.
    """
    if _POSITIONS.get(thing, "wide") == "wide":
        return np.ones((SIZE, SIZE), dtype=bool)
    bare = dict.fromkeys(WORN, "none")
    varied = itertools.product(("left", "right"), ("stand", "lay"), (False, True), (0, 2), (0, 2))
    pictures = [
        draw(Scene(bare, {thing: side}, "studio", pose, plural, (0, 0, 0, dx, dy)))
        for side, pose, plural, dx, dy in varied
    ]
    return ndimage.binary_dilation((np.stack(pictures) == INDEX[thing]).any(0), _EIGHT)


def read_images(images: np.ndarray | Sequence[Image.Image]) -> pd.DataFrame:
    """Return a table of what 64 × 64 RGB images of the toy world show, one row per image and a column per thing.

    A bool column for each attribute and object, one for each place (exactly one is true), ``side`` (``left``, ``right``
    or empty): where the object on the ground stands, and ``skin`` (see :func:`read_skins`).
    """
    import pandas as pd  # not before: a plan needs none

    rows = []
    for start in range(0, len(images), 512):
        indices = read_colours(images[start : start + 512])
        columns: dict[str, np.ndarray] = {}
        balance = np.zeros(len(indices))
        for thing, minimum in LEAST.items():
            mask = drop_isolated((indices == INDEX[thing]) & drawable_area(thing))
            columns[thing] = mask.sum((1, 2)) >= minimum
            if _POSITIONS.get(thing) == "ground":
                weight = mask[:, :, 32:].sum((1, 2)).astype(float) - mask[:, :, :32].sum((1, 2))
                balance += np.where(columns[thing], weight, 0.0)
        areas = [
            (indices == INDEX[f"{place}_wall"]).sum((1, 2)) + (indices == INDEX[f"{place}_floor"]).sum((1, 2))
            for place in PLACES
        ]
        best = np.argmax(areas, axis=0)
        columns |= {place: best == number for number, place in enumerate(PLACES)}
        columns["side"] = np.select([balance > 0, balance < 0], ["right", "left"], "")
        columns["skin"] = read_skins(indices)
        rows.append(pd.DataFrame(columns))
    return pd.concat(rows, ignore_index=True)


def read_skins(indices: np.ndarray) -> np.ndarray:
    """Return the skin shown in each image, ``skin_1`` to ``skin_3`` or empty, ``(n,)``, from its palette indices.

    That of the largest connected region; empty where none has as many as `LEAST_SKIN` pixels.
    """
    largest = []
    for skin in SKIN_NAMES:
        # 4-connected, and apart by picture
        regions, count = ndimage.label(drop_isolated(indices == INDEX[skin]), _CROSS)
        sizes = np.bincount(regions.ravel(), minlength=count + 1)
        sizes[0] = 0
        largest.append(sizes[regions].max((1, 2)))
    names = np.array(SKIN_NAMES)[np.argmax(largest, axis=0)]
    return np.where(np.max(largest, axis=0) >= LEAST_SKIN, names, "")


def read_objects(images: np.ndarray | Sequence) -> list[list[tuple[str, np.ndarray]]]:
    """Return, per 64 × 64 RGB image, (name, mask ``(64, 64)``) of each object in it, by class, then from the top.

    A mask has the pixels of the object's colour. Those belong together that lie within one pixel of each other, since
    lines of black and white are drawn across some objects; they are an object where there are at least `SHARE` of the
    pixels of that colour in its sprite. Scenes keep objects four pixels apart (`lab.validate.skills.scenes`), so that
    in a rendering two never are one.
    """
    objects: list[list[tuple[str, np.ndarray]]] = []
    least = {name: SHARE * (sprite(name) == INDEX[name]).sum() for name in OBJECTS}
    for picture in read_colours(images) if len(images) else ():
        objects.append([])
        for name in OBJECTS:
            colour = picture == INDEX[name]
            together, number = ndimage.label(ndimage.binary_dilation(colour, _EIGHT), _EIGHT)
            masks = (colour & (together == which) for which in range(1, number + 1))
            objects[-1] += [(name, mask) for mask in masks if mask.sum() >= least[name]]
    return objects
