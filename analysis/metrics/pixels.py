"""How much do two pictures of one triplet differ, pixel by pixel? SSIM and Diff. Pix.

Wu, Nakashima and Garcia 2025, section 4.1.3: "the average of SSIM scores over all pixels" and "the ratio of
the number of pixels in the contours with higher SSIM scores". The paper leaves the particulars open; what is
chosen here is stated at each function. Where a number cannot be had it is NaN, with the reason beside it.

A metric that runs hold is a function from a `PicturePair` to a `Score`; its row in `analysis.metrics.registry` names
the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from skimage.filters import threshold_otsu

WINDOW = 7
DATA_RANGE = 255
MIN_CONTOUR_AREA = 40.0  # pixels of the image as it is, whatever its size


@dataclass(frozen=True)
class Ssim:
    """Structural similarity of two grey pictures.

    Attributes
    ----------
    value : float
        Mean over every pixel whose window lies inside the picture. At most 1, which means no difference.
    map : ndarray of float64, shape (height, width)
        The similarity around each pixel, borders included (there the window sees the picture mirrored).
    window : int
        Side of the sliding window in pixels.
    data_range : int
        Difference between the largest and the smallest value that a pixel can take.
    """

    value: float
    map: NDArray[np.float64]
    window: int = WINDOW
    data_range: int = DATA_RANGE


@dataclass(frozen=True)
class DiffPix:
    """Part of a picture that lies in regions of difference.

    Attributes
    ----------
    value : float
        Percent of the picture, 0 (no difference) to 100; NaN where it is undefined.
    regions : ndarray of bool, shape (height, width)
        The filled regions.
    threshold : float
        Otsu's threshold on the 8-bit map; the regions are where the map is larger. NaN for a flat map.
    reason : str
        Why the value is NaN; empty where it is not.
    """

    value: float
    regions: NDArray[np.bool_]
    threshold: float
    reason: str = ""


@dataclass(frozen=True)
class LocalMoments:
    """A picture in grey with the means around each pixel, which every comparison with another picture needs.

    Attributes
    ----------
    grey : ndarray of float64, shape (height, width)
        0 to 255.
    mean, square : ndarray of float64, shape (height, width)
        Mean of the values, and of their squares, in the window around each pixel.
    """

    grey: NDArray[np.float64]
    mean: NDArray[np.float64]
    square: NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """What a metric says of two pictures.

    Attributes
    ----------
    value : float
        In the unit of the metric; NaN where it is undefined.
    reason : str
        Why the value is NaN; empty where it is not.
    """

    value: float
    reason: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture, with what is computed of it once, however often it is compared.

    Attributes
    ----------
    image : PIL image, or ndarray of uint8, shape (height, width) or (height, width, 3)
    """

    image: Image.Image | NDArray[np.uint8]

    @cached_property
    def moments(self) -> LocalMoments:
        """The picture in grey with its local means."""
        return local_moments(self.image)


@dataclass(frozen=True)
class PicturePair:
    """Two pictures of one triplet and seed, with what several metrics need of both, computed once."""

    first: Picture
    second: Picture

    @cached_property
    def structure(self) -> Ssim:
        """Their structural similarity."""
        return ssim(self.first.moments, self.second.moments)


def grey(image: Image.Image | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture in 8-bit grey by the weights of ITU-R 601 (0.299 R + 0.587 G + 0.114 B).

    Parameters
    ----------
    image : PIL image, or ndarray of uint8, shape (height, width) or (height, width, 3)
        A grey array comes back as it is.

    Returns
    -------
    ndarray of uint8, shape (height, width)

    Raises
    ------
    ValueError
        If an array is not uint8 or has another shape.

    Notes
    -----
    The paper does not name its weights. These are what OpenCV and Pillow call grey; skimage's `rgb2gray` uses
    others.

    Examples
    --------
    >>> grey(np.array([[[255, 0, 0], [0, 0, 255]]], dtype=np.uint8))  # 0.299 * 255 = 76.2, 0.114 * 255 = 29.1
    array([[76, 29]], dtype=uint8)
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
    """Return a picture as `ssim` needs it; worth doing once where a picture is compared with several.

    Parameters
    ----------
    image : PIL image, or ndarray of uint8, shape (height, width) or (height, width, 3)
    """
    values = grey(image).astype(np.float64)
    return LocalMoments(values, _window_mean(values), _window_mean(values * values))


def _window_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return ndimage.uniform_filter(values, size=WINDOW)


def ssim(
    first: Image.Image | NDArray[np.uint8] | LocalMoments,
    second: Image.Image | NDArray[np.uint8] | LocalMoments,
) -> Ssim:
    r"""Return the structural similarity of two pictures, seen in grey.

    .. math:: \mathrm{SSIM}(x, y) = \frac{(2\mu_x\mu_y + C_1)(2\sigma_{xy} + C_2)}
              {(\mu_x^2 + \mu_y^2 + C_1)(\sigma_x^2 + \sigma_y^2 + C_2)}

    in a uniform window of 7x7 pixels, with :math:`C_1 = (0.01 \cdot 255)^2`, :math:`C_2 = (0.03 \cdot 255)^2`
    and sample (co)variances. It is symmetric, at most 1 (no difference) and can be negative.

    Parameters
    ----------
    first, second : PIL image, LocalMoments, or ndarray of uint8, shape (height, width) or (height, width, 3)
        Two pictures of one size, at least 7x7.

    Returns
    -------
    Ssim

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
    >>> round(ssim(black, black).value, 6), round(ssim(black, white).value, 6)
    (1.0, 0.0001)
    """
    a, b = (part if isinstance(part, LocalMoments) else local_moments(part) for part in (first, second))
    if a.grey.shape != b.grey.shape:
        raise ValueError(f"pictures: expected two of one size, got {_size(a.grey)} and {_size(b.grey)}")
    if min(a.grey.shape) < WINDOW:
        raise ValueError(f"pictures: expected at least {WINDOW}x{WINDOW} pixels, got {_size(a.grey)}")
    sample = WINDOW**2 / (WINDOW**2 - 1)  # (co)variances of a sample
    covariance = sample * (_window_mean(a.grey * b.grey) - a.mean * b.mean)
    variances = [sample * (part.square - part.mean * part.mean) for part in (a, b)]
    c1, c2 = (0.01 * DATA_RANGE) ** 2, (0.03 * DATA_RANGE) ** 2
    above = (2 * a.mean * b.mean + c1) * (2 * covariance + c2)
    below = (a.mean**2 + b.mean**2 + c1) * (variances[0] + variances[1] + c2)
    full, border = above / below, (WINDOW - 1) // 2
    return Ssim(value=float(full[border:-border, border:-border].mean()), map=full)


def difference_map(similarity: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return 1 - SSIM in 8 bits: 0 where the pictures agree, 255 where SSIM is 0 or below.

    Examples
    --------
    >>> difference_map(np.array([[1.0, 0.5, 0.0, -1.0]]))
    array([[  0, 128, 255, 255]], dtype=uint8)
    """
    return np.rint(255 * np.clip(1 - similarity, 0, 1)).astype(np.uint8)


def filled_regions(mask: NDArray[np.bool_], min_area: float = MIN_CONTOUR_AREA) -> NDArray[np.bool_]:
    """Fill the outer contours of a mask and keep those that enclose more than `min_area` pixels.

    A contour runs through the centres of the outermost pixels of an 8-connected region, so the area it
    encloses is less than the number of pixels it fills: a square of 8x8 pixels encloses 49. What a contour
    encloses is filled, holes and islands in the holes with it.

    Parameters
    ----------
    mask : ndarray of bool, shape (height, width)
    min_area : float
        In pixels; an area equal to it is not enough.

    Returns
    -------
    ndarray of bool, shape (height, width)

    Source
    ------
    The same pixels as OpenCV's `findContours` (outer contours only), `contourArea` and `drawContours`
    (filled). The enclosed area is counted over all squares of 2x2 pixels: 1 where four are in the region, 1/2
    where three are (Gray's bit quads).

    Examples
    --------
    >>> mask = np.zeros((20, 20), bool)
    >>> mask[1:8, 1:8] = True  # 7 x 7 pixels enclose 36: too few
    >>> mask[10:18, 10:18] = True  # 8 x 8 pixels enclose 49
    >>> mask[12:14, 12:14] = False  # a hole: filled
    >>> int(filled_regions(mask).sum())
    64
    """
    filled = _without_holes(mask)
    labels, count = ndimage.label(filled, np.ones((3, 3), bool))
    corners = [
        labels[i : labels.shape[0] - 1 + i, j : labels.shape[1] - 1 + j] for i in (0, 1) for j in (0, 1)
    ]
    members = sum((corner > 0).astype(np.int8) for corner in corners)
    owner = np.maximum.reduce(corners)  # pixels of one square touch, so they are of one region
    areas = np.bincount(owner.ravel(), np.array([0, 0, 0, 0.5, 1])[members].ravel(), minlength=count + 1)
    return (areas > min_area)[labels] & filled


def _without_holes(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask and what of the rest cannot be left to the outside by its sides, as `ndimage.binary_fill_holes`."""
    outside, _ = ndimage.label(np.pad(~mask, 1, constant_values=True))
    return outside[1:-1, 1:-1] != outside[0, 0]


def diff_pix(similarity: NDArray[np.float64], min_area: float = MIN_CONTOUR_AREA) -> DiffPix:
    """Return the part of a picture, in percent, that lies in regions of difference.

    The map 1 - SSIM in 8 bits is split by Otsu's threshold; outer contours that enclose more than 40 pixels
    are filled; the filled area is divided by the area of the picture. 0 means no difference, 100 is the whole
    picture.

    Otsu's threshold is relative to each pair of pictures: two that hardly differ are split as well as two
    that differ much, at a lower value. Pictures that do not differ at all (a map of zeros) give 0. Any other
    flat map, such as black against white, has nothing to be split and gives NaN.

    Parameters
    ----------
    similarity : ndarray of float64, shape (height, width)
        The map of `ssim`, borders included.
    min_area : float
        In pixels of the picture as it is.

    Returns
    -------
    DiffPix

    Raises
    ------
    ValueError
        If the map is not two-dimensional or holds a value that is not finite.

    Source
    ------
    Wu et al. 2025, section 4.1.3, which names neither the threshold nor the smallest contour; both are those
    of the usual recipe with OpenCV. The map is rounded to 8 bits, a negative SSIM counts as 0: the paper
    leaves both open.

    Examples
    --------
    >>> similarity = np.ones((20, 20))
    >>> similarity[5:15, 5:15] = 0  # 10 x 10 of 20 x 20 pixels
    >>> diff_pix(similarity).value
    25.0
    >>> diff_pix(np.ones((20, 20))).value
    0.0
    """
    similarity = np.asarray(similarity)
    if similarity.ndim != 2 or not np.isfinite(similarity).all():
        raise ValueError(
            f"map of SSIM: expected finite numbers (height, width), got shape {similarity.shape}"
        )
    difference = difference_map(similarity)
    nothing = np.zeros(difference.shape, bool)
    if difference.min() == difference.max():
        if difference.max() == 0:
            return DiffPix(0.0, nothing, float("nan"))
        return DiffPix(
            float("nan"), nothing, float("nan"), "the pictures differ alike everywhere: no threshold"
        )
    threshold = threshold_otsu(difference)
    regions = filled_regions(difference > threshold, min_area)
    return DiffPix(float(100 * regions.sum() / regions.size), regions, float(threshold))


def ssim_score(pair: PicturePair) -> Score:
    """Return `ssim` of two pictures, for the registry."""
    return Score(pair.structure.value)


def diff_pix_score(pair: PicturePair) -> Score:
    """Return `diff_pix` of two pictures, for the registry."""
    difference = diff_pix(pair.structure.map)
    return Score(difference.value, difference.reason)


def _size(picture: NDArray) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"
