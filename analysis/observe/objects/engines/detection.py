"""The protocol of detectors: images and tags in, detections out.

An engine observes a batch of images, each with its own tags, and gives for each image what it found and how
many candidates it dropped, by reason. The observe stage (:mod:`analysis.observe.stage`) knows nothing else
of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

DROPPED = ("empty", "merged", "unknown", "overlap")


@dataclass(frozen=True)
class Detection:
    """One object in one image.

    Attributes
    ----------
    label : str
        The tag it was matched to.
    score : float
        In [0, 1].
    box : tuple of float
        ``x0, y0, x1, y1`` in pixels, clipped to the image.
    mask : numpy.ndarray
        ``(height, width)`` bool, of the image's size.
    """

    label: str
    score: float
    box: tuple[float, float, float, float]
    mask: np.ndarray


@dataclass(frozen=True)
class Found:
    """Detections of an engine in one image.

    Attributes
    ----------
    detections : list of Detection
        Those kept, best first.
    dropped : mapping of str to int
        Candidates that were not kept, by reason: ``empty`` (no token above the text threshold), ``merged`` (tokens
        of several tags), ``unknown`` (tokens of no tag), ``overlap`` (class-agnostic non-maximum suppression).
    """

    detections: list[Detection]
    dropped: Mapping[str, int] = field(default_factory=dict)


class DetectionEngine(Protocol):
    """Finds objects in images."""

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Look for tags in images.

        Parameters
        ----------
        images : sequence of numpy.ndarray
            ``(height, width, 3)`` uint8 RGB; sizes may differ.
        tags : sequence of sequence of str
            For each image what to look for, in lower case, none twice.
        """
        ...
