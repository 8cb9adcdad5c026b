"""Observers of objects by toyworld's colours, without a vision model."""

from __future__ import annotations

from typing import Any

from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.models.toyworld_checker import ToyworldChecker, ToyworldScenes
from analysis.observe.objects.observer import ObjectObserver
from analysis.observe.objects.tags.tags import Tags, fixed
from probes.toyworld import checker


class CheckerObserver(ObjectObserver):
    """The toyworld checker will look."""

    engine_name, libraries = "toyworld-checker", ()
    batch, device_type = 64, "cpu"
    detector, things = ToyworldChecker.detector, checker.TAGS

    def __str__(self) -> str:
        return f"{self.engine_name}, {len(self.things)} things by their palette colours, no vision model"

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        return {"observe.engine": self.engine_name, "observe.detector": self.detector}

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        return ToyworldChecker()

    def tags(self) -> Tags:
        """What the palette shows, for every image."""
        return fixed(self.things, "checker")

    def described(self) -> dict[str, Any]:
        """The checker in the place of detector and segmenter."""
        both = {"detector": self.detector, "segmenter": self.detector}
        return {**both, "tags": ["checker"], "checkpoints": {}, "thresholds": {}}


class ScenesObserver(CheckerObserver):
    """The reader of toyworld's skills will look."""

    engine_name, libraries = "toyworld-scenes", ("scipy",)
    detector, things = checker.SKILLS_VERSION, checker.OBJECTS

    def __str__(self) -> str:
        return f"{self.engine_name}, every object by its palette colour, no vision model"

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        return ToyworldScenes()
