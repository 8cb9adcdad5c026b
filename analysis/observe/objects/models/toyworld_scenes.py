"""Toyworld's pictures of skills read exactly, as an engine: every single object by its palette colour.

Unlike `analysis.observe.objects.models.toyworld_checker`, which gives one detection a thing, it tells objects of a
kind apart, as long as they stand apart (`probes.toyworld.checker`); of figures and what they wear it says
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.observe.objects.detection import Found
from analysis.observe.objects.models.toyworld_checker import detection, require_size
from probes.toyworld.checker import read_objects


class ToyworldScenes:
    """A :class:`~analysis.observe.objects.detection.DetectionEngine` of 64 × 64 pictures' colours."""

    def detect(self, images: Sequence[np.ndarray], tags: Sequence[Sequence[str]]) -> list[Found]:
        """Give every object that is seen in each image, score 1, the largest first; the tags alter nothing."""
        require_size(images, "observe.engine: toyworld-scenes", "choose another engine")
        if not len(images):
            return []
        read = read_objects(np.stack(images))
        for one in read:
            one.sort(key=lambda seen: -int(seen[1].sum()))
        return [Found([detection(name, mask) for name, mask in one]) for one in read]
