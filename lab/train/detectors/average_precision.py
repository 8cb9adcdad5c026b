"""Average precision of detections: the area under the curve of precision over recall, at one IoU.

Source: Lin et al. 2014 (COCO) for the matching (best score first, each object once) and the precision made to fall;
the area is exact rather than read at 101 points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def average_precision(scores: ArrayLike, hits: ArrayLike, objects: int) -> float:
    """Area under the curve, of detections of one class, matched to an object or not; NaN without objects."""
    if objects == 0:
        return float("nan")
    right = np.asarray(hits, dtype=bool)[np.argsort(-np.asarray(scores, dtype=float), kind="stable")]
    precision = right.cumsum() / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(falling[right].sum() / objects)


def matched(scores: ArrayLike, overlaps: ArrayLike, minimum: float = 0.5) -> NDArray[np.bool_]:
    """Which detections of one class in one image are matched, best score first, to an object not yet taken.

    ``overlaps`` is the IoU ``(m, n)`` with the objects of that class.
    """
    overlaps = np.array(overlaps, dtype=float)
    hits = np.zeros(len(overlaps), dtype=bool)
    for number in np.argsort(-np.asarray(scores, dtype=float), kind="stable"):
        if overlaps.shape[1] and overlaps[number].max() >= minimum:
            hits[number] = True
            overlaps[:, overlaps[number].argmax()] = -1.0
    return hits
