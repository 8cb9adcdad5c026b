"""The observer of objects by DETR."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import find, revision, sha256, weight_files
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.observer import ObjectObserver, description
from analysis.observe.objects.tags.tags import Tags, fixed
from probes.config.schema import Config
from probes.errors import UserError
from probes.paths import display_name


class DetrObserver(ObjectObserver):
    """DETR will look, for the classes that it was trained on."""

    engine_name, libraries = "detr", ("torch", "transformers", "timm")

    def __init__(self, config: Config):
        super().__init__(config)
        if not self.settings.detector:
            raise UserError(
                "observe.detector: expected a folder or hub id of DETR for the engine detr, found none: name one,"
                " such as facebook/detr-resnet-101-dc5"
            )
        find(self.settings.detector, "observe.detector", fetch=False)
        _ = self.device

    def __str__(self) -> str:
        return f"detr: boxes by {self.settings.detector}, filled; batches of {self.batch} on {self.device}"

    @cached_property
    def path(self) -> Path:
        """Path of the detector on this machine; fetches it from the hub."""
        return find(str(self.settings.detector), "observe.detector")  # type: ignore[return-value]

    @property
    def files(self) -> list[Path]:
        """The weights."""
        return weight_files(self.path)

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        return {
            "observe.engine": self.engine_name,
            "observe.detector": sorted(map(sha256, self.files)),
            "observe.detector.description": description(self.path),
            "observe.box_threshold": self.settings.box_threshold,
            "observe.batch": self.batch,
            "observe.device": self.device_type,
        }

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        from analysis.observe.objects.models.detr import Detr

        return Detr(self.path, self.device, threshold=self.settings.box_threshold, batch=self.batch)

    def tags(self) -> Tags:
        """The classes that it was trained on, for every image."""
        from analysis.observe.objects.models.detr import classes

        return fixed(classes(self.path), "detector")

    def described(self) -> dict[str, Any]:
        """The detector alone."""
        return {
            "detector": display_name(str(self.settings.detector)),
            "revision": revision(self.path),
            "segmenter": None,
            "tags": ["detector"],
            "checkpoints": {"detector": {file.name: sha256(file) for file in self.files}},
            "thresholds": {"box_threshold": self.settings.box_threshold},
        }
