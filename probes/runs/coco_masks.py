"""Masks as text: COCO's compressed run lengths, as ``objects/`` stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pycocotools import mask as coco


def encode(mask: np.ndarray) -> str:
    """Encode a ``(height, width)`` bool mask as the counts of COCO's compressed run lengths."""
    return coco.encode(np.asfortranarray(mask, dtype=np.uint8))["counts"].decode("ascii")


def decode(counts: str, height: int, width: int) -> np.ndarray:
    """Return the ``(height, width)`` bool mask of COCO's compressed run lengths, whose sum is not checked here."""
    return coco.decode({"counts": counts.encode("ascii"), "size": [height, width]}).astype(bool)


def run_lengths(mask: ArrayLike) -> dict[str, Any]:
    """Return a ``(height, width)`` bool mask as pycocotools takes it: ``size`` and compressed ``counts``.

    The same as ``pycocotools.mask.encode``, in half the time where the mask stands column by column in memory.
    """
    pixels = np.asarray(mask, bool)
    flat = pixels.ravel("F")
    turns = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    # the first run is one of pixels that are not in the mask
    ends = np.concatenate([[0] * (2 if flat.size and flat[0] else 1), turns, [flat.size]])
    counts = ends[1:] - ends[:-1]
    return coco.frPyObjects({"size": list(pixels.shape), "counts": counts}, *pixels.shape)
