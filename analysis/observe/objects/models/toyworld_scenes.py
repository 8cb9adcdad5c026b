"""Toyworld's pictures of skills read exactly, as an engine: every single object by its palette colour.

Unlike `analysis.observe.objects.models.toyworld_checker`, which gives one detection a thing, it tells objects of a
kind apart, as long as they stand apart (`probes.toyworld.skills`); of figures and what they wear it says
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.observe.objects.detection import Detection, Found
from analysis.observe.objects.models.toyworld_checker import require_size
from probes.toyworld.skills import read_objects


class ToyworldScenes:
    """A :class:`~analysis.observe.objects.detection.DetectionEngine` of 64 × 64 pictures' colours."""

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Give every object that is seen in each image, score 1, the largest first; the tags alter nothing."""
        require_size(images, "observe.engine: toyworld-scenes", "choose another engine")
        if not len(images):
            return []
        found = []
        for read in read_objects(np.stack(images)):
            read.sort(key=lambda one: -int(one.mask.sum()))
            found.append(
                Found([Detection(one.name, 1.0, tuple(map(float, one.box)), one.mask) for one in read])  # type: ignore[arg-type]
            )
        return found
