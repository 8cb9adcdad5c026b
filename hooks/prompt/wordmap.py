"""The map of one word in one image, and what one does with it. Imports no torch."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image

from hooks.attention.maps import THETA, LayerMaps, mask, normalise, resize
from hooks.errors import HookError

# Colours from low to high, for pictures: dark blue, violet, red, orange, light yellow.
_COLOURS = np.array([(8, 8, 40), (84, 15, 109), (187, 55, 84), (249, 142, 9), (252, 255, 164)], np.float32)
_SHOWN = 256  # pixels of the longer side in Jupyter
_ROUNDED = 0.5  # of 255: mean difference of an image that is another by rounding alone


def from_array(pixels: Any) -> Image.Image:
    """Return an image from pixels (height, width, 3), of uint8 or numbers from 0 to 1 (clipped)."""
    pixels = np.asarray(pixels)
    if pixels.dtype != np.uint8:
        pixels = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    return Image.fromarray(pixels)


@dataclass(frozen=True)
class WordMap:
    """Heat map of the attention to a word in one image.

    Attributes
    ----------
    values : ndarray, shape (h, w), float32
        Mean over the word's tokens of their maps, raw; of a transformer their sum.
    word : str
    positions : tuple of int
        Token positions that entered.
    row : int
        Row of the batch, one row an image.
    definition, version : str
        How the map is computed (`hooks.attention.definitions`); for a slice, its layer and calls.
    size : (int, int)
        Height and width of the image in pixels.
    text_mass : ndarray, shape (h, w), or None
        Of a transformer, the attention to all the text in the same layers; `values / text_mass` is the word's share of
        it, if the definition reads a mass.
    """

    values: np.ndarray = field(repr=False)
    word: str
    positions: tuple[int, ...]
    row: int
    definition: str
    version: str
    size: tuple[int, int]
    text_mass: np.ndarray | None = field(default=None, repr=False)
    _kept: LayerMaps | None = field(default=None, repr=False)
    _image: Image.Image | None = field(default=None, repr=False)
    _slice: tuple[str | None, int | None] = field(default=(None, None), repr=False)

    @property
    def peak(self) -> float:
        """Largest value of the raw map; low for a word that the image does not show."""
        return float(self.values.max())

    @property
    def normalised(self) -> np.ndarray:
        """The map scaled to 0…1 by its minimum and maximum, shape (h, w); NaN everywhere if it is constant."""
        return normalise(self.values)

    def mask(self, threshold: float = THETA, size: int | tuple[int, int] | None = None) -> np.ndarray:
        """Return a mask of bool: where the map, resized and then scaled to 0…1, exceeds `threshold`.

        Parameters
        ----------
        threshold : float
        size : int or (int, int), optional
            Height and width; the image's, by default.

        Returns
        -------
        ndarray of bool; empty only if the map is constant
        """
        return mask(self.values, self.size if size is None else size, threshold)[0]

    def iou(self, other: WordMap | np.ndarray, threshold: float = THETA) -> float:
        """Return the intersection over union of this word's mask and another; NaN if both are empty.

        Parameters
        ----------
        other : WordMap or ndarray of bool, shape (height, width)
            A mask is compared at its own size, another map at this one's image size.
        threshold : float

        Returns
        -------
        float, from 0 to 1; NaN if both are empty

        Raises
        ------
        HookError
            `other` is neither a WordMap nor a mask of bool of this one's shape.
        """
        if isinstance(other, WordMap):
            other_mask = other.mask(threshold, self.size)
        else:
            other_mask = np.asarray(other)
            if other_mask.dtype != bool or other_mask.ndim != 2:
                raise HookError(
                    "other: expected a WordMap or a mask of bool, shape (height, width), "
                    f"but got {other_mask.dtype}, shape {other_mask.shape}"
                )
        own_mask = self.mask(threshold, other_mask.shape)
        union = np.logical_or(own_mask, other_mask).sum()
        return float(np.logical_and(own_mask, other_mask).sum() / union) if union else float("nan")

    def overlay(self, image: Any = None, alpha: float = 0.6) -> Image.Image:
        """Return the map in colours, blended over its image; HookError for another image or if none is known.

        Parameters
        ----------
        image : PIL image, or ndarray of shape (height, width, 3), uint8 or float from 0 to 1
            The image of the map, at any size; not needed if a run stored it or the block decoded it.
        alpha : float
            Weight of the colours.

        Raises
        ------
        HookError
            If it is another image, or none is given and none is known.
        """
        image = self._image if image is None else image
        if image is None:
            raise HookError(
                "image: expected the image that the map is of, got none: pass what the pipeline returned"
            )
        image = image if isinstance(image, Image.Image) else from_array(image)
        image = image.convert("RGB")
        if not self._is_map_of(image):
            raise HookError(
                f"image: expected the one that the map is of, row {self.row}, {self.size[1]}x{self.size[0]} pixels, "
                f"but got another of {image.width}x{image.height}: pass images[{self.row}] of that call"
            )
        return Image.blend(image, self.picture((image.height, image.width)), alpha)

    def _is_map_of(self, image: Image.Image) -> bool:
        """Return whether an image is the one of this map, up to size and rounding; by size if that is not known."""
        if self._image is None:
            return (image.height, image.width) == tuple(self.size)
        known = np.asarray(self._image.convert("RGB"), np.float32)
        other = np.asarray(image.resize(self._image.size, Image.Resampling.BOX), np.float32)
        return bool(np.abs(known - other).mean() < _ROUNDED)

    def picture(self, size: tuple[int, int] | None = None) -> Image.Image:
        """Return the map in colours at `size` (height, width), by default the image's; of one colour if constant."""
        heat = self.values
        if heat.max() > heat.min():
            heat = normalise(resize(heat, self.size if size is None else size))
        else:
            heat = np.zeros(self.size if size is None else size, np.float32)
        place = heat * (len(_COLOURS) - 1)
        low = np.minimum(place.astype(int), len(_COLOURS) - 2)
        share = (place - low)[..., None]
        pixels = _COLOURS[low] * (1 - share) + _COLOURS[low + 1] * share
        return Image.fromarray(pixels.round().astype(np.uint8))

    def layer(self, address: str) -> WordMap:
        """Return the map of one attention layer, at its own resolution, averaged over heads; HookError if not recorded.

        Parameters
        ----------
        address : str
            Of a layer, as `hooks.attention.maps.LayerMaps.layers` lists them.

        Raises
        ------
        HookError
            If `layer_maps` was not requested, or there is no such layer.
        """
        return self._slice_map("layer", address, self._slice[1])

    def step(self, number: int) -> WordMap:
        """Return the map of one bin of calls, in the layer chosen or the mean of layers; HookError for no such bin.

        Parameters
        ----------
        number : int
            Of the bin, from 0.

        Raises
        ------
        HookError
            If `layer_maps` was not requested, or there is no such bin.
        """
        return self._slice_map("step", self._slice[0], number)

    def head(self, address: str) -> tuple[WordMap, ...]:
        """Return the maps of the heads of one attention layer, in their order; HookError if not recorded.

        Parameters
        ----------
        address : str
            As of `layer`, whose map is the mean of these.

        Raises
        ------
        HookError
            If `head_maps` was not requested, or there is no such layer.
        """
        if self._kept is None or self._kept.by_head is None:
            raise HookError("WordMap.head: the heads were averaged: pass head_maps=True to Probe")
        self.layer(address)  # refuses one that is not there
        heads = range(self._kept.by_head[address].shape[2])
        return tuple(self._slice_map("head", address, self._slice[1], number) for number in heads)

    def _slice_map(
        self, method: str, layer: str | None, step: int | None, head: int | None = None
    ) -> WordMap:
        """Return the map of a layer (None: mean of all), a bin of calls (None: all) and a head (None: mean of all).

        `method` is for the error.
        """
        if self._kept is None:
            raise HookError(
                f"WordMap.{method}: only the whole map was summed: pass layer_maps=1 or more to Probe"
            )
        values = self._kept.word(self.row, self.positions, layer, step, head)
        parts = ["mean of layers" if layer is None else layer]
        parts += [] if head is None else [f"head {head}"]
        if step is not None:
            first = sum(self._kept.calls[:step])
            parts.append(f"calls {first} to {first + self._kept.calls[step] - 1}")
        return replace(self, values=values, definition=", ".join(parts), _slice=(layer, step))

    def __repr__(self) -> str:
        h, w = self.values.shape
        return (
            f"WordMap({self.word!r}, row {self.row}, tokens {list(self.positions)}, {h}x{w}, "
            f"peak {self.peak:.4g}, definition {self.definition!r}, version {self.version})"
        )

    def _repr_png_(self) -> bytes:
        """The map in colours as PNG, which Jupyter shows."""
        scale = _SHOWN / max(self.size)
        data = io.BytesIO()
        self.picture(tuple(max(1, round(side * scale)) for side in self.size)).save(data, "png")
        return data.getvalue()
