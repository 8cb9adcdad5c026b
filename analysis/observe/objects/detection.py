"""The protocol of detectors: images and tags in, detections out.

An engine observes a batch of images, each with its own tags, and gives for each image what it found and how
many candidates it dropped, by reason. The observe stage (:mod:`analysis.observe.stage`) knows nothing else
of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from probes.errors import UserError

DROPPED = ("empty", "merged", "unknown", "overlap")


@dataclass(frozen=True)
class Detection:
    """One object in one image.

    ``label`` is the tag it was matched to, ``score`` in [0, 1], ``box`` x0, y0, x1, y1 in pixels, clipped to the image,
    ``mask`` ``(height, width)`` bool.
    """

    label: str
    score: float
    box: tuple[float, float, float, float]
    mask: np.ndarray


@dataclass(frozen=True)
class Found:
    """Detections of an engine in one image, best first, and how many candidates were dropped, by reason.

    ``empty``: no token above the text threshold; ``merged``: tokens of several tags; ``unknown``: tokens of no tag;
    ``overlap``: class-agnostic non-maximum suppression.
    """

    detections: list[Detection]
    dropped: Mapping[str, int] = field(default_factory=dict)


class DetectionEngine(Protocol):
    """Finds objects in images."""

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Look in images ``(height, width, 3)`` uint8 RGB for tags, in lower case, none twice; sizes may differ."""
        ...


def batches_of_one_size(images: Sequence[np.ndarray], batch: int) -> Iterator[list[int]]:
    """Indices of images that go through a network together: at most `batch`, all of one size, so that none is padded.

    What a detector sees in an image depends on the padding around it, and so would on what else is in the batch.
    """
    for size in dict.fromkeys(image.shape for image in images):
        same_size = [index for index, image in enumerate(images) if image.shape == size]
        for start in range(0, len(same_size), batch):
            yield same_size[start : start + batch]


@contextmanager
def enough_memory(batch: int) -> Iterator[None]:
    """Turn a device's lack of memory into one line that names ``observe.batch``."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise UserError(
            f"observe.batch: expected room on the device for {batch} images in one go, found too little: use"
            " a smaller batch or another device"
        ) from None
