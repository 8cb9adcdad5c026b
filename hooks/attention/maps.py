"""Attention maps as arrays: heat maps by definition, the sums of every layer, words' maps and masks. No torch.

Tang et al. (2023), section 2.2 and 4: a word's map is the mean over its tokens; its mask is where the map,
resized bicubically to the image and stretched to 0…1 over itself, exceeds a threshold. Such a mask is never
empty, even for a word that the image does not show, so the map's peak before stretching is returned beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hooks.errors import HookError

THETA = 0.35


def normalise(heat: np.ndarray) -> np.ndarray:
    """Return the map scaled to 0…1, (heat - min) / (max - min); NaN everywhere if it is constant.

    Parameters
    ----------
    heat : ndarray, shape (h, w)

    Returns
    -------
    ndarray, shape (h, w), float32, from 0 to 1; NaN everywhere if the map is constant, which has no min-max

    Examples
    --------
    >>> normalise([[1.0, 2.0], [3.0, 5.0]])
    array([[0.  , 0.25],
           [0.5 , 1.  ]], dtype=float32)
    """
    heat = np.asarray(heat, dtype=np.float32)
    low, high = heat.min(), heat.max()
    if not high > low:
        return np.full_like(heat, np.nan)
    return (heat - low) / (high - low)


def resize(heat: np.ndarray, size: int | tuple[int, int]) -> np.ndarray:
    """Return the map resized by bicubic interpolation as torch computes it.

    Parameters
    ----------
    heat : ndarray, shape (h, w)
    size : int or (int, int)
        New height and width, or both as one number. Corners are not aligned, and there is no antialiasing.

    Returns
    -------
    ndarray, shape `size`, float32; may overshoot the range of `heat`
    """
    import cv2  # when maps are resized: reading definitions does without

    height, width = (size, size) if isinstance(size, int | np.integer) else size
    heat = np.asarray(heat, dtype=np.float32)
    return cv2.resize(heat, (int(width), int(height)), interpolation=cv2.INTER_CUBIC)


def mask(heat: np.ndarray, size: int | tuple[int, int], theta: float = THETA) -> tuple[np.ndarray, float]:
    """Return a word's mask at the image's size and the map's peak, from the raw map (h, w) of the word.

    Parameters
    ----------
    heat : ndarray, shape (h, w)
        Map of one word, raw.
    size : int or (int, int)
        Height and width of the image in pixels; one number stands for both.
    theta : float
        Pixels strictly above it, after min-max, are in the mask. 0.35 by default.

    Returns
    -------
    mask : ndarray of bool, shape `size`; empty only if the map is constant
    peak : float
        Largest value of the given map, before resizing and min-max; low for a word that the image does not show.

    Raises
    ------
    HookError
        `heat` is no map of one word, or `theta` is no number from 0 to 1.

    Examples
    --------
    >>> word_mask, peak = mask([[0.0, 0.0], [0.0, 8.0]], size=4)
    >>> word_mask.astype(int)
    array([[0, 0, 0, 0],
           [0, 0, 0, 0],
           [0, 0, 1, 1],
           [0, 0, 1, 1]])
    >>> peak
    8.0
    """
    heat = np.asarray(heat, dtype=np.float32)
    if heat.ndim != 2:
        raise HookError(f"heat: expected the map of one word, shape (h, w), but got shape {heat.shape}")
    if not 0 <= theta <= 1:
        raise HookError(f"theta: expected a number from 0 to 1, but got {theta}")
    normal = resize(heat, size)
    low, high = normal.min(), normal.max()
    # rounding while resizing must not make structure of nothing
    if heat.max() == heat.min() or not high > low:
        return np.zeros(normal.shape, bool), float(heat.max())
    return normalise(normal) > theta, float(heat.max())


@dataclass(frozen=True)
class WordMaps:
    """Heat maps of the prompts' tokens in every image of a batch, shape (rows, columns, h, w).

    Attributes
    ----------
    values : ndarray, shape (rows, columns, h, w), float32
        Raw sums of probabilities, before any min-max; (h, w) is the latent's size, in patches for a transformer.
    layers : tuple of str
        Addresses of the cross-attentions that entered.
    columns : tuple of tuple of int
        By row, the positions of the text that its first maps are of: those of the prompt's tokens, unless all were
        asked for.
    adds_tokens : bool
        Whether a word's map is its tokens' sum, as in a transformer, rather than their mean.
    definition, version : str
    text : ndarray, shape (rows, h, w), float32, or None
        Of a transformer: the mass of all the text in the same attentions, summed alike.
    self_attention : ndarray, shape (rows, pixels, pixels), float32, or None
        Mean probability with which each pixel attends to each, if the definition spreads its maps along it.
    """

    values: np.ndarray = field(repr=False)
    layers: tuple[str, ...] = field(repr=False)
    columns: tuple[tuple[int, ...], ...] = field(repr=False)
    adds_tokens: bool = field(default=False, repr=False)
    definition: str = "daam"
    version: str = "1"
    text: np.ndarray | None = field(default=None, repr=False)
    self_attention: np.ndarray | None = field(default=None, repr=False)

    def word(self, row: int, positions: Sequence[int]) -> np.ndarray:
        """Return a word's map (h, w) by its token positions: the tokens' mean in a U-Net, their sum in a transformer.

        Raises
        ------
        HookError
            There is no such row, or no map of such a position.
        """
        heat = self.heat(row)
        maps = heat[_column_numbers(self.columns[row], positions)]
        return maps.sum(axis=0) if self.adds_tokens else maps.mean(axis=0)

    def heat(self, row: int) -> np.ndarray:
        """Return the token maps (columns, h, w), float32, of one row of the batch; HookError if there is no such row.

        Raises
        ------
        HookError
            The batch has no such row.
        """
        if not 0 <= row < len(self.values):
            raise HookError(f"row: expected one of the batch's {len(self.values)} rows, but got {row}")
        return self.values[row]


@dataclass(frozen=True)
class LayerMaps:
    """Sums of attention probabilities over the calls of each bin, layer by layer, averaged over heads.

    Attributes
    ----------
    values : dict of str to ndarray, shape (rows, bins, columns, h, w), float32
        By address, at the layer's own resolution: the sum over the calls of a bin.
    calls : tuple of int
        Number of calls of the denoiser in each bin.
    heads : dict of str to int
        By address, how many heads were averaged.
    size : (int, int)
        Of the latent; of a transformer, of the grid of patches.
    columns, adds_tokens
        As in `WordMaps`; a last column is the mass of all the text, where the definition has it.
    by_head : dict of str to ndarray, shape (rows, bins, heads, columns, h, w), or None
        By address, each head's maps, of which `values` are the mean; None if they were not kept.
    """

    values: dict[str, np.ndarray] = field(repr=False)
    calls: tuple[int, ...]
    heads: dict[str, int] = field(repr=False)
    size: tuple[int, int]
    columns: tuple[tuple[int, ...], ...] = field(repr=False)
    adds_tokens: bool = field(default=False, repr=False)
    by_head: dict[str, np.ndarray] | None = field(default=None, repr=False)

    @property
    def layers(self) -> tuple[str, ...]:
        """Addresses of the attention layers that have maps."""
        return tuple(self.values)

    def word(
        self,
        row: int,
        tokens: Sequence[int],
        layer: str | None,
        step: int | None,
        head: int | None = None,
    ) -> np.ndarray:
        """Return a word's map in one layer, at that layer's resolution, or in the mean of layers, at the latent's.

        Parameters
        ----------
        row : int
            Image of the batch, from 0.
        tokens : sequence of int
            The word's positions in the prompt, as for `WordMaps.word`.
        layer : str or None
            Address of a layer; None is their mean, a layer weighed by its number of heads.
        step : int or None
            Bin of calls, from 0; None is the sum over the bins.
        head : int or None
            Of a layer whose heads were kept; None is their mean.

        Returns
        -------
        ndarray of float32, shape (height, width)

        Raises
        ------
        HookError
            If there is no such layer or bin.
        """
        if layer is not None and layer not in self.values:
            raise HookError(f"layer: expected one of {', '.join(self.values)}, but got {layer!r}")
        if step is not None and not 0 <= step < len(self.calls):
            raise HookError(f"step: expected one of the {len(self.calls)} bins kept, but got {step}")
        positions = _column_numbers(self.columns[row], tokens)
        bins = slice(None) if step is None else slice(step, step + 1)

        def layer_map(address: str) -> np.ndarray:
            values = self.values[address] if head is None else self.by_head[address][:, :, head]
            small = values[row, bins][:, positions].sum(axis=0)
            small = small.mean(axis=0, dtype=np.float32)
            return small * np.float32(len(positions)) if self.adds_tokens else small

        if layer is not None:
            return layer_map(layer)
        maps = [np.clip(resize(layer_map(address), self.size), 0, None) for address in self.values]
        return np.average(maps, axis=0, weights=list(self.heads.values())).astype(np.float32)


def _column_numbers(columns: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Return the indices in `columns` of positions of the text; HookError if there is none, or one without a map."""
    missing = [position for position in positions if position not in columns]
    if missing or not len(positions):
        raise HookError(
            f"positions: expected some of {list(columns)}, those of the prompt, but got {[*missing]}: pass "
            "map_tokens='all' to Probe for maps of the others"
        )
    return [columns.index(position) for position in positions]
