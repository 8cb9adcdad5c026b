"""Masks as COCO's compressed run lengths; ``objects/`` stores their counts as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pycocotools import mask as coco


def run_lengths(mask: ArrayLike) -> dict[str, Any]:
    """Return a ``(height, width)`` bool mask as pycocotools takes it: ``size`` and compressed ``counts``."""
    return coco.encode(np.asfortranarray(mask, dtype=np.uint8))


def encode(mask: np.ndarray) -> str:
    """Encode a ``(height, width)`` bool mask as the counts of COCO's compressed run lengths."""
    return run_lengths(mask)["counts"].decode("ascii")


def decode(counts: str, height: int, width: int) -> np.ndarray:
    """Return the ``(height, width)`` bool mask of COCO's compressed run lengths, whose sum is not checked here."""
    return coco.decode({"counts": counts.encode("ascii"), "size": [height, width]}).astype(bool)
