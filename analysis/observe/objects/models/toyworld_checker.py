"""The toyworld checker as an engine: exact on the bundled models' images, and no vision model at all.

It reads every attribute, every object and the figure by their palette colours (:mod:`probes.toyworld.checker`),
whatever tags are asked for, and gives one detection a thing, score 1: the pixels of its own colour that hang
together with enough of their kind. White and black details that the renderer draws on a thing, which have no
colour of their own, are not in its mask; the figure, ``person``, holds what it encloses. Two figures, or two
boots, are one detection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import ndimage

from analysis.observe.objects.detection import Detection, Found
from probes.errors import UserError
from probes.toyworld.checker import (
    LEAST,
    PERSON,
    TAGS,
    VERSION,
    drawable_area,
    drop_isolated,
    read_colours,
    read_objects,
)
from probes.toyworld.draw import SIZE
from probes.toyworld.palette import INDEX
from probes.toyworld.world import load_world

_EIGHT = np.ones((3, 3), dtype=bool)
_BODY = [INDEX[name] for name in INDEX if name.startswith(("skin_", "hair_", "plain_"))]
# Pixels of a figure's colours, with at least 5 of 8 neighbours of the same colour, that make a figure. Of 300
# renderings passed through the autoencoder those with a figure show at least 482, the same ones without it at most
# 171 in 99 of 100; 640 generated images, all of which show one, all have as many.
_LEAST_FIGURE = 180
_SPECK = 12  # pixels; what hangs together in fewer is no part of a figure


def require_size(images: Sequence[np.ndarray], field: str, remedy: str) -> None:
    """Refuse images that are not of toyworld's size, in the name of what would read them."""
    for image in images:
        if image.shape != (SIZE, SIZE, 3):
            height, width = image.shape[:2]
            raise UserError(
                f"{field} expected images of {SIZE} × {SIZE} pixels, got {height} × {width}: {remedy}"
            )


class ToyworldChecker:
    """A :class:`~analysis.observe.objects.detection.DetectionEngine` of 64 × 64 toyworld images' colours."""

    detector = f"{VERSION}, figures/1"

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Give everything that is seen in each image; the tags alter nothing."""
        require_size(images, "observe.engine: toyworld-checker", "choose groundingdino")
        if not len(images):
            return []
        indices = read_colours(np.stack(images))
        masks = {thing: _seen(indices, thing) for thing in LEAST}
        masks[PERSON] = figures(indices, masks)
        return [
            Found([detection(thing, masks[thing][row]) for thing in TAGS if masks[thing][row].any()])
            for row in range(len(indices))
        ]


def _seen(indices: np.ndarray, thing: str) -> np.ndarray:
    """Masks ``(n, h, w)`` of a thing; all false where the checker counts it as absent."""
    colour = (indices == INDEX[thing]) & drawable_area(thing)
    seen = np.zeros_like(colour)
    rows = np.flatnonzero(colour.sum((1, 2)) >= LEAST[thing])
    seeds = drop_isolated(colour[rows])
    for row, seed in zip(rows, seeds):
        if seed.sum() >= LEAST[thing]:
            seen[row] = ndimage.binary_propagation(seed, _EIGHT, mask=colour[row])
    return seen


def figures(indices: np.ndarray, things: Mapping[str, np.ndarray]) -> np.ndarray:
    """Masks ``(n, h, w)`` of the figure: skin, hair and what is worn, its gaps closed.

    All false in an image with too little of these colours. In a generated image some of a face or a garment lies nearer
    to another colour; a gap that the figure encloses counts as the figure, unless an object is seen there.
    """
    worn = load_world().attributes
    colour = np.isin(indices, _BODY)
    objects = np.zeros_like(colour)
    for thing, mask in things.items():
        (colour if thing in worn else objects)[mask] = True
    seeds = drop_isolated(colour)
    filled = np.zeros_like(colour)
    for row in np.flatnonzero(seeds.sum((1, 2)) >= _LEAST_FIGURE):
        mask = ndimage.binary_propagation(seeds[row], _EIGHT, mask=colour[row])
        components, count = ndimage.label(mask, _EIGHT)
        sizes = ndimage.sum_labels(mask, components, np.arange(1, count + 1))
        mask &= np.isin(components, 1 + np.flatnonzero(sizes >= _SPECK))
        closed = mask | ndimage.binary_closing(mask, _EIGHT)
        filled[row] = mask | (ndimage.binary_fill_holes(closed) & ~objects[row])
    return filled


def shows_figure(indices: np.ndarray) -> np.ndarray:
    """Return whether enough is seen of skin, hair and clothes to make a figure, ``(n,)`` bool."""
    worn = [INDEX[name] for name in load_world().attributes]
    return drop_isolated(np.isin(indices, [*_BODY, *worn])).sum((1, 2)) >= _LEAST_FIGURE


def detection(thing: str, mask: np.ndarray) -> Detection:
    """A thing with the box of its mask, score 1."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
    return Detection(thing, 1.0, box, mask)


class ToyworldScenes:
    """Toyworld's pictures of skills read exactly, as an engine: every single object by its palette colour.

    Unlike `ToyworldChecker` it tells objects of a kind apart, as long as they stand apart; of figures and what they
    wear it says nothing.
    """

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Give every object that is seen in each image, score 1, the largest first; the tags alter nothing."""
        require_size(images, "observe.engine: toyworld-scenes", "choose another engine")
        objects = read_objects(np.stack(images)) if len(images) else []
        ordered = [sorted(image_objects, key=lambda item: -int(item[1].sum())) for image_objects in objects]
        return [Found([detection(*item) for item in image_objects]) for image_objects in ordered]
