"""Tipping points: how unequal a detector's errors would have to be to make a difference on their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class TippingPoints:
    """Errors that explain a difference; arrays of shape (n_objects,), NaN where nothing was detected.

    Attributes
    ----------
    sensitivity, sensitivity_bound : ndarray of float64
        Ratio of sensitivities, 1 or more; infinite where the object is detected on one side alone. The bound is the end
        of the interval that lies nearer to equality: 1 where the interval holds it.
    false, false_bound : ndarray of float64
        False detections on the side with more, as a share of its images without the object, 0 to 1.
    """

    sensitivity: NDArray[np.float64]
    sensitivity_bound: NDArray[np.float64]
    false: NDArray[np.float64]
    false_bound: NDArray[np.float64]


def tipping_points(first: ArrayLike, second: ArrayLike, low: ArrayLike, high: ArrayLike) -> TippingPoints:
    r"""Return how unequal a detector's errors would have to be to make the differences between two sides on their own.

    Of shares of the sides' images in which each object was detected, and the interval of the difference, second less
    first. Where both sides hold an object equally often and nothing is invented, shares p stand to each other as the
    detector's sensitivities; or one that invents it, on the side with more alone, does so in
    :math:`(p_+ - p_-) / (1 - p_-)` of the images without it. With the sum t of both shares, a difference d is the ratio
    :math:`(t + d) / (t - d)`. The bound is that of the interval's end, so that it exceeds 1 where, and only where, the
    interval leaves out 0; NaN where that is. A sensitivity analysis as of Cornfield et al. 1959.

    >>> result = tipping_points([0.1, 0.0], [0.3, 0.2], [0.1, -0.1], [0.3, 0.5])
    >>> result.sensitivity.round(2).tolist(), result.sensitivity_bound.round(2).tolist()
    ([3.0, inf], [1.67, 1.0])
    >>> result.false.round(2).tolist(), result.false_bound.round(2).tolist()
    ([0.22, 0.2], [0.11, 0.0])
    """
    first, second, low, high = (np.asarray(a, np.float64) for a in (first, second, low, high))
    total, less = first + second, np.minimum(first, second)
    towards = np.where(second >= first, low, -high)
    end = np.where(np.isnan(towards), np.nan, np.clip(towards, 0, np.abs(second - first)))
    seen = np.where(total > 0, 1.0, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (
            np.maximum(first, second) / less,
            (total + end) / (total - end),
            np.abs(second - first) / (1 - less),
            end / (1 - less),
        )
    return TippingPoints(*(one * seen for one in found))
