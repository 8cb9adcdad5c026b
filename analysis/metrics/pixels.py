"""Difference of two pictures of one triplet, pixel by pixel: SSIM and Diff. Pix.

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
from skimage.filters import threshold_otsu
from skimage.metrics import structural_similarity

WINDOW = 7  # of SSIM: pixels a side
MIN_CONTOUR_AREA = 40.0  # pixels of the image as it is, whatever its size


@dataclass(frozen=True)
class Score:
    """Value of a metric for two pictures, in its unit; NaN where it is undefined, with the reason."""

    value: float
    reason: str = ""


def grey(image: Image.Image | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture in 8-bit grey by the weights of ITU-R 601 (0.299 R + 0.587 G + 0.114 B).

    The paper does not name its weights. These are what OpenCV and Pillow call grey; skimage's `rgb2gray` uses others.
    """
    if not isinstance(image, Image.Image):
        image = np.asarray(image)
        if image.dtype != np.uint8 or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 3)):
            raise ValueError(
                f"picture: expected uint8 of shape (height, width) or (height, width, 3), "
                f"got {image.dtype} of shape {image.shape}"
            )
        image = Image.fromarray(image)
    return np.asarray(image.convert("L"))


@dataclass(frozen=True)
class PicturePair:
    """Two pictures of one triplet and seed in 8-bit grey, with what several metrics need of both, computed once."""

    first: NDArray[np.uint8]
    second: NDArray[np.uint8]

    @cached_property
    def similarities(self) -> NDArray[np.float64]:
        """SSIM around each pixel, of `ssim_map`."""
        return ssim_map(self.first, self.second)

    @cached_property
    def difference(self) -> NDArray[np.uint8]:
        """1 - SSIM around each pixel in 8 bits: 0 where the pictures agree, 255 where SSIM is 0 or below."""
        return np.rint(np.clip(255 - 255 * self.similarities, 0, 255)).astype(np.uint8)


def ssim_map(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float64]:
    r"""Return the structural similarity of two grey pictures of one size around each pixel, ``(height, width)``.

    .. math:: \mathrm{SSIM}(x, y) = \frac{(2\mu_x\mu_y + C_1)(2\sigma_{xy} + C_2)}
              {(\mu_x^2 + \mu_y^2 + C_1)(\sigma_x^2 + \sigma_y^2 + C_2)}

    in a uniform window of 7x7 pixels, with :math:`C_1 = (0.01 \cdot 255)^2`, :math:`C_2 = (0.03 \cdot 255)^2`
    and sample (co)variances; at the border the window sees the picture mirrored. It is symmetric, at most 1 (no
    difference) and can be negative.

    Source: `skimage.metrics.structural_similarity`; Wang et al. 2004, "Image quality assessment: from error visibility
    to structural similarity".

    Two flat pictures have no variance, so only the means speak: (2 * 0 * 255 + C1) / (0 + 255**2 + C1).

    >>> black, white = np.zeros((8, 8), np.uint8), np.full((8, 8), 255, np.uint8)
    >>> [round(float(ssim_map(black, other).mean()), 6) for other in (black, white)]
    [1.0, 0.0001]
    """
    sizes = [f"{picture.shape[1]}x{picture.shape[0]}" for picture in (first, second)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"pictures: expected two of one size, got {sizes[0]} and {sizes[1]}")
    if min(first.shape) < WINDOW:
        raise ValueError(f"pictures: expected at least {WINDOW}x{WINDOW} pixels, got {sizes[0]}")
    return structural_similarity(first, second, win_size=WINDOW, data_range=255, full=True)[1]


def filled_regions(mask: NDArray[np.bool_], min_area: float = MIN_CONTOUR_AREA) -> NDArray[np.bool_]:
    """Fill the outer contours of a mask and keep those that enclose more than `min_area` pixels.

    A contour runs through the centres of the outermost pixels of an 8-connected region, so the area it encloses is less
    than the number of pixels it fills: a square of 8x8 pixels encloses 49. What a contour encloses is filled, holes and
    islands in the holes with it (OpenCV's `findContours`, `contourArea` and `drawContours`).
    """
    import cv2  # when pictures are compared: reading tables does without

    binary = np.ascontiguousarray(mask, bool).view(np.uint8)
    contours, _ = cv2.findContours(binary, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    kept = [contour for contour in contours if cv2.contourArea(contour) > min_area]
    return cv2.drawContours(np.zeros(binary.shape, np.uint8), kept, -1, 1, cv2.FILLED).view(bool)


def diff_pix(difference: NDArray[np.uint8]) -> Score:
    """Return the part of a picture, in percent, that lies in regions of difference, of `PicturePair.difference`.

    The map 1 - SSIM in 8 bits is split by Otsu's threshold; outer contours that enclose more than 40 pixels
    are filled; the filled area is divided by the area of the picture. 0 means no difference, 100 is the whole
    picture.

    Otsu's threshold is relative to each pair of pictures: two that hardly differ are split as well as two
    that differ much, at a lower value. Pictures that do not differ at all (a map of zeros) give 0. Any other
    flat map, such as black against white, has nothing to be split and gives NaN.

    Source: Wu et al. 2025, section 4.1.3, which names neither the threshold nor the smallest contour; both are those
    of the usual recipe with OpenCV. The map is rounded to 8 bits, a negative SSIM counts as 0: the paper
    leaves both open.

    >>> difference = np.zeros((20, 20), np.uint8)
    >>> difference[5:15, 5:15] = 255  # 10 x 10 of 20 x 20 pixels
    >>> diff_pix(difference).value, diff_pix(np.zeros((20, 20), np.uint8)).value
    (25.0, 0.0)
    """
    counts = np.bincount(difference.ravel(), minlength=256)
    if counts.max() == difference.size:
        if counts[0]:
            return Score(0.0)
        return Score(float("nan"), "the pictures differ alike everywhere: no threshold")
    threshold = int(threshold_otsu(hist=(counts, np.arange(256))))
    regions = filled_regions(difference > threshold)
    return Score(float(100 * np.count_nonzero(regions) / regions.size))


# Functions of the registry


def ssim_score(pair: PicturePair) -> Score:
    """Return the mean SSIM (`ssim_map`) of the pixels whose window lies inside the picture."""
    border = WINDOW // 2
    return Score(float(pair.similarities[border:-border, border:-border].mean()))


def ssim_full_score(pair: PicturePair) -> Score:
    """Return the mean of SSIM over all pixels, its border too, as Wu et al. 2025 say."""
    return Score(float(pair.similarities.mean()))


def diff_pix_score(pair: PicturePair) -> Score:
    """Return `diff_pix` of two pictures."""
    return diff_pix(pair.difference)
