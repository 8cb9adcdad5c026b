"""The observer of objects by DETR."""

from __future__ import annotations

from typing import Any

from analysis.observe.checkpoints import revision
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.observer import ObjectObserver
from analysis.observe.objects.tags.tags import Tags, fixed
from probes.config.schema import Config
from probes.errors import UserError


class DetrObserver(ObjectObserver):
    """DETR will look, for the classes that it was trained on."""

    engine_name, libraries = "detr", ("torch", "transformers", "timm")
    kinds, thresholds = ("detector",), ("box_threshold",)

    def __init__(self, config: Config):
        if not config.observe.detector:
            raise UserError(
                "observe.detector: expected a folder or hub id of DETR for the engine detr, found none: name one,"
                " such as facebook/detr-resnet-101-dc5"
            )
        super().__init__(config)

    def __str__(self) -> str:
        return f"detr: boxes by {self.settings.detector}, filled; batches of {self.batch} on {self.device}"

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        from analysis.observe.objects.models.detr import Detr

        path, threshold = self.paths["detector"], self.settings.box_threshold
        return Detr(path, self.device, threshold=threshold, batch=self.batch)

    def tags(self) -> Tags:
        """The classes that it was trained on, for every image."""
        from analysis.observe.objects.models.detr import classes

        return fixed(classes(self.paths["detector"]), "detector")

    def described(self) -> dict[str, Any]:
        """The detector alone."""
        alone = {"revision": revision(self.paths["detector"]), "segmenter": None, "tags": ["detector"]}
        return super().described() | alone
