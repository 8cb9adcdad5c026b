"""From token maps to word maps and masks. No torch: stored maps are masked again on a laptop.

Tang et al. (2023), section 2.2 and 4: a word's map is the mean over its tokens; its mask is where the map,
resized bicubically to the image and stretched to 0…1 over itself, exceeds a threshold. Such a mask is never
empty, even for a word that was not drawn, so the map's peak before stretching is returned beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hooks.errors import HookError

THETA = 0.35


def normalise(heat: np.ndarray) -> np.ndarray:
    """Min-max over the whole map: (heat - min) / (max - min).

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


def word_heat(heat: np.ndarray, positions: Sequence[int]) -> np.ndarray:
    """Map of a word: the mean of its tokens' maps.

    Parameters
    ----------
    heat : ndarray, shape (n_tokens, h, w)
        As `WordMaps.heat` gives it.
    positions : sequence of int
        The word's token positions, counted with the start-of-text token.

    Returns
    -------
    ndarray, shape (h, w), float32

    Raises
    ------
    HookError
        If there is no position, or one outside the prompt.

    Examples
    --------
    >>> word_heat([[[0.0]], [[1.0]], [[3.0]]], [1, 2])
    array([[2.]], dtype=float32)
    """
    heat = np.asarray(heat, dtype=np.float32)
    positions = [int(position) for position in positions]
    if not positions or min(positions) < 0 or max(positions) >= len(heat):
        raise HookError(f"positions: expected some of 0 to {len(heat) - 1}, but got {positions}")
    return heat[positions].mean(axis=0)


def resize(heat: np.ndarray, size: int | tuple[int, int]) -> np.ndarray:
    """Bicubic interpolation as torch computes it (`mode="bicubic"`, corners not aligned, no antialiasing).

    Parameters
    ----------
    heat : ndarray, shape (h, w)
    size : int or (int, int)
        Height and width wanted; one number stands for both.

    Returns
    -------
    ndarray, shape `size`, float32; may overshoot the range of `heat`
    """
    import cv2  # when maps are resized: reading definitions does without

    height, width = (size, size) if isinstance(size, int | np.integer) else size
    heat = np.asarray(heat, dtype=np.float32)
    return cv2.resize(heat, (int(width), int(height)), interpolation=cv2.INTER_CUBIC)


def mask(heat: np.ndarray, size: int | tuple[int, int], theta: float = THETA) -> tuple[np.ndarray, float]:
    """Mask of a word's map at the image's size, and the map's peak.

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
        Largest value of the given map, before resizing and min-max; low for a word that was not drawn.

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
