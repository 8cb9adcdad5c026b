"""Masks as text: COCO's compressed run lengths, as ``objects/`` stores them."""

from __future__ import annotations

import numpy as np
from pycocotools import mask as coco


def encode(mask: np.ndarray) -> str:
    """Encode a ``(height, width)`` bool mask as the counts of COCO's compressed run lengths.

    Examples
    --------
    >>> encode(np.array([[False, True], [True, True]]))
    '13'
    >>> decode("13", 2, 2)
    array([[False,  True],
           [ True,  True]])
    """
    return coco.encode(np.asfortranarray(mask, dtype=np.uint8))["counts"].decode("ascii")


def decode(counts: str, height: int, width: int) -> np.ndarray:
    """Return the ``(height, width)`` bool mask of COCO's compressed run lengths."""
    return coco.decode({"counts": counts.encode("ascii"), "size": [height, width]}).astype(bool)
