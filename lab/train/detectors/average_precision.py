"""Average precision of detections: the area under the curve of precision over recall, at one IoU.

Source: Lin et al. 2014 (COCO) for the matching (best score first, each object once) and the precision made to fall;
the area is exact rather than read at 101 points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def box_iou(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """IoU ``(m, n)`` of boxes ``(m, 4)`` and ``(n, 4)``, as ``x0, y0, x1, y1``.

    Examples
    --------
    >>> box_iou([[0, 0, 2, 2]], [[1, 0, 3, 2], [5, 5, 6, 6]]).round(3).tolist()
    [[0.333, 0.0]]
    """
    first, second = (np.asarray(boxes, dtype=float).reshape(-1, 4) for boxes in (first, second))
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    both = (high - low).clip(0).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None] - both
    return np.divide(both, union, out=np.zeros_like(both), where=union > 0)


def average_precision(scores: ArrayLike, hits: ArrayLike, objects: int) -> float:
    """Area under the curve.

    Parameters
    ----------
    scores : array_like
        ``(n,)``, of all detections of one class.
    hits : array_like
        ``(n,)`` bool: the detection was matched to an object.
    objects : int
        How many there are.

    Returns
    -------
    float
        0 to 1, best is 1; NaN where there is no object.

    Examples
    --------
    The second of three detections is wrong and one of three objects is never found: ⅓ · 1 + ⅓ · ⅔.

    >>> round(average_precision([0.9, 0.8, 0.7], [True, False, True], 3), 4)
    0.5556
    """
    if objects == 0:
        return float("nan")
    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    right = np.asarray(hits, dtype=bool)[order]
    found = right.cumsum()
    precision = found / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(falling[right].sum() / objects)


def matched(scores: ArrayLike, overlaps: ArrayLike, minimum: float = 0.5) -> NDArray[np.bool_]:
    """Return which detections of one class in one image are matched, best score first, to an object not yet taken.

    Parameters
    ----------
    scores : array_like
        ``(m,)``.
    overlaps : array_like
        IoU ``(m, n)`` with the objects of that class.
    """
    overlaps = np.array(overlaps, dtype=float)
    hits = np.zeros(len(overlaps), dtype=bool)
    for number in np.argsort(-np.asarray(scores, dtype=float), kind="stable"):
        if overlaps.shape[1] and overlaps[number].max() >= minimum:
            hits[number] = True
            overlaps[:, overlaps[number].argmax()] = -1.0
    return hits
