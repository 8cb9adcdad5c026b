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

from analysis.metrics.ssim import LocalMoments, Structure, local_moments, structure

MIN_CONTOUR_AREA = 40.0  # pixels of the image as it is, whatever its size
CONTOUR_SIDE = (
    512  # of the images of Wu et al. 2025, for which 40 pixels are meant where the minimum is scaled
)


@dataclass(frozen=True)
class Score:
    """Value of a metric for two pictures.

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
        """The picture in grey with its local sums."""
        return local_moments(self.image)


@dataclass(frozen=True)
class PicturePair:
    """Two pictures of one triplet and seed, with what several metrics need of both, computed once."""

    first: Picture
    second: Picture

    @cached_property
    def structure(self) -> Structure:
        """Their structural similarity."""
        return structure(self.first.moments, self.second.moments)


def filled_regions(mask: NDArray[np.bool_], min_area: float = MIN_CONTOUR_AREA) -> NDArray[np.bool_]:
    """Fill the outer contours of a mask and keep those that enclose more than `min_area` pixels.

    A contour runs through the centres of the outermost pixels of an 8-connected region, so the area it encloses is less
    than the number of pixels it fills: a square of 8x8 pixels encloses 49. What a contour encloses is filled, holes and
    islands in the holes with it (OpenCV's `findContours`, `contourArea` and `drawContours`).
    """
    import cv2  # when pictures are compared: reading tables does without

    drawn = np.ascontiguousarray(mask, bool).view(np.uint8)
    contours, _ = cv2.findContours(drawn, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    kept = [contour for contour in contours if cv2.contourArea(contour) > min_area]
    return cv2.drawContours(np.zeros(drawn.shape, np.uint8), kept, -1, 1, cv2.FILLED).view(bool)


def diff_pix(difference: NDArray[np.uint8], min_area: float = MIN_CONTOUR_AREA) -> Score:
    """Return the part of a picture, in percent, that lies in regions of difference.

    The map 1 - SSIM in 8 bits is split by Otsu's threshold; outer contours that enclose more than 40 pixels
    are filled; the filled area is divided by the area of the picture. 0 means no difference, 100 is the whole
    picture.

    Otsu's threshold is relative to each pair of pictures: two that hardly differ are split as well as two
    that differ much, at a lower value. Pictures that do not differ at all (a map of zeros) give 0. Any other
    flat map, such as black against white, has nothing to be split and gives NaN.

    Parameters
    ----------
    difference : ndarray of uint8, shape (height, width)
        As of `analysis.metrics.ssim.Structure`, borders included.
    min_area : float
        In pixels of the picture as it is.

    Source
    ------
    Wu et al. 2025, section 4.1.3, which names neither the threshold nor the smallest contour; both are those
    of the usual recipe with OpenCV. The map is rounded to 8 bits, a negative SSIM counts as 0: the paper
    leaves both open.

    Examples
    --------
    >>> difference = np.zeros((20, 20), np.uint8)
    >>> difference[5:15, 5:15] = 255  # 10 x 10 of 20 x 20 pixels
    >>> diff_pix(difference).value, diff_pix(np.zeros((20, 20), np.uint8)).value
    (25.0, 0.0)
    """
    import cv2

    counts = cv2.calcHist([difference], [0], None, [256], [0, 256]).ravel()
    values = np.flatnonzero(counts)
    if len(values) == 1:
        if values[0] == 0:
            return Score(0.0)
        return Score(float("nan"), "the pictures differ alike everywhere: no threshold")
    threshold = int(threshold_otsu(hist=(counts, np.arange(256))))
    regions = filled_regions(difference > threshold, min_area)
    return Score(float(100 * np.count_nonzero(regions) / regions.size))


def ssim_score(pair: PicturePair) -> Score:
    """Return the mean SSIM (`analysis.metrics.ssim.structure`) of two pictures, for the registry."""
    return Score(pair.structure.value)


def ssim_full_score(pair: PicturePair) -> Score:
    """Return the mean of SSIM over all pixels, its border too, as Wu et al. 2025 say; for the registry."""
    return Score(pair.structure.full)


def diff_pix_score(pair: PicturePair) -> Score:
    """Return `diff_pix` of two pictures, for the registry."""
    return diff_pix(pair.structure.difference)


def diff_pix_scaled_score(pair: PicturePair) -> Score:
    """Return `diff_pix` of two pictures, with the area of 40 pixels of 512 x 512 in proportion, for the registry."""
    difference = pair.structure.difference
    height, width = difference.shape
    return diff_pix(difference, MIN_CONTOUR_AREA * height * width / CONTOUR_SIDE**2)
