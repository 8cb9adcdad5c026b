"""Structural similarity (SSIM) of two pictures around each pixel, in grey.

Sums over windows of 8-bit pictures are whole numbers and computed as such, so no picture is too flat or too bright for
them; only their ratio is rounded, in float64. What a picture needs by itself is computed once, however often it is
compared, and a pair is worked through a few rows at a time, which stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

WINDOW = 7
BORDER = (WINDOW - 1) // 2  # pixels around which the window does not fit
DATA_RANGE = 255
BLOCK_PIXELS = 2**14  # that are compared at a time; no result depends on it


@dataclass(frozen=True)
class Structure:
    """Structural similarity of two grey pictures, in numbers and in 8 bits.

    Attributes
    ----------
    value : float
        Mean over every pixel whose window lies inside the picture. At most 1, which means no difference.
    full : float
        Mean over all pixels; at the border the window sees the picture mirrored.
    difference : ndarray of uint8, shape (height, width)
        1 - SSIM around each pixel in 8 bits: 0 where the pictures agree, 255 where SSIM is 0 or below.
    """

    value: float
    full: float
    difference: NDArray[np.uint8]


@dataclass(frozen=True)
class LocalMoments:
    """A picture in grey with the sums around each pixel, which every comparison with another picture needs.

    Attributes
    ----------
    grey : ndarray of uint8, shape (height, width)
    total : ndarray of uint16, shape (height, width)
        Sum of the n = 49 values in the window around each pixel.
    spread : ndarray of int32, shape (height, width)
        n times the sum of their squares, less the square of their sum: n (n - 1) times the variance of a sample.
    """

    grey: NDArray[np.uint8]
    total: NDArray[np.uint16]
    spread: NDArray[np.int32]


def grey(image: Image.Image | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture in 8-bit grey by the weights of ITU-R 601 (0.299 R + 0.587 G + 0.114 B).

    The paper does not name its weights. These are what OpenCV and Pillow call grey; skimage's `rgb2gray` uses others. A
    grey array comes back as it is.
    """
    if not isinstance(image, Image.Image):
        image = np.asarray(image)
        if image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)):
            raise ValueError(
                f"picture: expected uint8 of shape (height, width) or (height, width, 3), "
                f"got {image.dtype} of shape {image.shape}"
            )
        if image.ndim == 2:
            return image
        image = Image.fromarray(image)
    return np.asarray(image.convert("L"))


def local_moments(image: Image.Image | NDArray[np.uint8]) -> LocalMoments:
    """Return a picture as `structure` needs it; worth doing once where a picture is compared with several."""
    values = grey(image)
    total, spread = np.empty(values.shape, np.uint16), np.empty(values.shape, np.int32)
    for rows, near, place in _blocks(*values.shape):
        sums = _window_sum(values[near])[place]
        total[rows] = sums
        sums *= sums
        np.multiply(_window_sum(_product(values[near], values[near]))[place], WINDOW**2, out=spread[rows])
        spread[rows] -= sums
    return LocalMoments(values, total, spread)


def _blocks(height: int, width: int) -> Iterator[tuple[slice, slice, slice]]:
    """Rows of a picture that are worked through together, all rows that their windows see, and their place in these."""
    step = max(1, BLOCK_PIXELS // width)
    for start in range(0, height, step):
        stop = min(start + step, height)
        near = slice(max(start - BORDER, 0), min(stop + BORDER, height))
        yield slice(start, stop), near, slice(start - near.start, stop - near.start)


def _window_sum(values: NDArray) -> NDArray[np.int32]:
    """Sums in the window around each pixel, mirrored at the border."""
    import cv2  # when pictures are compared: reading tables does without

    border = cv2.BORDER_REFLECT
    return cv2.boxFilter(values, cv2.CV_32S, (WINDOW, WINDOW), normalize=False, borderType=border)


def _product(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint16]:
    return np.multiply(first, second, dtype=np.uint16)  # at most 255 * 255


def structure(
    first: Image.Image | NDArray[np.uint8] | LocalMoments,
    second: Image.Image | NDArray[np.uint8] | LocalMoments,
) -> Structure:
    r"""Return the structural similarity of two pictures, seen in grey.

    .. math:: \mathrm{SSIM}(x, y) = \frac{(2\mu_x\mu_y + C_1)(2\sigma_{xy} + C_2)}
              {(\mu_x^2 + \mu_y^2 + C_1)(\sigma_x^2 + \sigma_y^2 + C_2)}

    in a uniform window of 7x7 pixels, with :math:`C_1 = (0.01 \cdot 255)^2`, :math:`C_2 = (0.03 \cdot 255)^2`
    and sample (co)variances. It is symmetric, at most 1 (no difference) and can be negative.

    Parameters
    ----------
    first, second : PIL image, LocalMoments, or ndarray of uint8, shape (height, width) or (height, width, 3)
        Two pictures of one size, at least 7x7.

    Raises
    ------
    ValueError
        If the sizes differ or are below the window.

    Source
    ------
    `skimage.metrics.structural_similarity`, the same numbers to the last bit: its score leaves out a border of 3
    pixels, where the window does not fit; its map does not. Wang et al. 2004, "Image quality assessment: from error
    visibility to structural similarity".

    Examples
    --------
    Two flat pictures have no variance, so only the means speak: (2 * 0 * 255 + C1) / (0 + 255**2 + C1).

    >>> black, white = np.zeros((8, 8), np.uint8), np.full((8, 8), 255, np.uint8)
    >>> round(structure(black, black).value, 6), round(structure(black, white).value, 6)
    (1.0, 0.0001)
    """
    import cv2

    a, b = _comparable(first, second)
    difference = np.empty(a.grey.shape, np.uint8)
    means = _Means(*difference.shape)
    for rows, similarity in _similarities(a, b):
        # ends and rounds
        cv2.addWeighted(similarity, -255, similarity, 0, 255, dst=difference[rows], dtype=cv2.CV_8U)
        means.add(rows, similarity)
    return Structure(means.inside, means.full, difference)


def _comparable(*pictures: Image.Image | NDArray[np.uint8] | LocalMoments) -> list[LocalMoments]:
    a, b = moments = [x if isinstance(x, LocalMoments) else local_moments(x) for x in pictures]
    if a.grey.shape != b.grey.shape:
        raise ValueError(f"pictures: expected two of one size, got {_size(a.grey)} and {_size(b.grey)}")
    if min(a.grey.shape) < WINDOW:
        raise ValueError(f"pictures: expected at least {WINDOW}x{WINDOW} pixels, got {_size(a.grey)}")
    return moments


def _similarities(a: LocalMoments, b: LocalMoments) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """SSIM, some rows after others; what is yielded is written over by the next ones.

    Numerator and denominator are expanded by n^2 * n (n - 1), so that all but the constants are whole numbers.
    """
    n = WINDOW**2
    c1, c2 = (0.01 * DATA_RANGE) ** 2 * n**2, (0.03 * DATA_RANGE) ** 2 * n * (n - 1)
    height, width = a.grey.shape
    wholes = np.empty((3, min(max(1, BLOCK_PIXELS // width), height), width), np.int32)
    floats = np.empty((3, *wholes.shape[1:]))
    for rows, near, place in _blocks(height, width):
        covariance = _window_sum(_product(a.grey[near], b.grey[near]))[place]
        first, second, whole = wholes[:, : rows.stop - rows.start]
        above, below, factor = floats[:, : rows.stop - rows.start]
        first[...], second[...] = a.total[rows], b.total[rows]
        above[...] = np.multiply(first, second, out=whole)
        covariance *= n
        factor[...] = np.subtract(covariance, whole, out=covariance)
        above += c1 / 2  # halves of both factors: doubled below, which rounds nothing
        factor += c2 / 2
        above *= factor
        above *= 4
        first *= first
        second *= second
        below[...] = np.add(first, second, out=whole)
        factor[...] = np.add(a.spread[rows], b.spread[rows], out=whole)
        below += c1
        factor += c2
        below *= factor
        above /= below
        yield rows, above


class _Means:
    """The mean of a map that is added some rows after others, and that of its pixels around which the window fits."""

    def __init__(self, height: int, width: int):
        self._height = height
        self._all, self._edges = np.zeros((2, width))

    def add(self, rows: slice, values: NDArray[np.float64]) -> None:
        self._all += values.sum(axis=0)
        first, last = max(BORDER - rows.start, 0), max(self._height - BORDER - rows.start, 0)
        for edge in (values[:first], values[last:]):
            if len(edge):
                self._edges += edge.sum(axis=0)

    @property
    def full(self) -> float:
        return float(self._all.mean() / self._height)

    @property
    def inside(self) -> float:
        inside = (self._all - self._edges)[BORDER:-BORDER]
        return float(inside.mean() / (self._height - 2 * BORDER))


def _size(picture: NDArray) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"
