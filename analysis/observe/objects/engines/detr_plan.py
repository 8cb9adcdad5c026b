"""The plan to look for objects with DETR."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import find, revision, sha256, weight_files
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.engines.plans import DETR, ModelPlan, description, parameters
from analysis.observe.objects.tags.tags import Tags, fixed
from probes.config.schema import Config
from probes.errors import UserError
from probes.paths import name_of


class DetrPlan(ModelPlan):
    """DETR will look, for the classes that it was trained on."""

    def __str__(self) -> str:
        return f"{DETR}: boxes by {self.settings.detector}, filled; batches of {self.batch} on {self.device}"

    @cached_property
    def path(self) -> Path:
        """Path of the detector on this machine; fetches it from the hub."""
        return find(str(self.settings.detector), "observe.detector")  # type: ignore[return-value]

    @cached_property
    def checkpoints(self) -> dict[str, str]:
        """The checksum of every file of weights."""
        return {str(file.absolute()): sha256(file) for file in weight_files(self.path)}

    @property
    def parameters(self) -> int:
        """Parameters of the model, about."""
        return parameters(weight_files(self.path))

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        return {
            "observe.engine": self.name,
            "observe.detector": sorted(self.checkpoints.values()),
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
        """Return the tags to look for in each image: the classes that it was trained on."""
        from analysis.observe.objects.models.detr import classes

        return fixed(classes(self.path), "detector")

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps about the observer."""
        return {
            "engine": self.name,
            "detector": name_of(str(self.settings.detector)),
            "revision": revision(self.path),
            "segmenter": None,
            "tags": ["detector"],
            "checkpoints": {"detector": self.checkpoints},
            "thresholds": {"box_threshold": self.settings.box_threshold},
            "versions": self.versions,
        }


def detr_plan(config: Config) -> DetrPlan:
    """Return the plan of a configuration with this engine, which needs a detector and nothing else."""
    detector = config.observe.detector
    if not detector:
        raise UserError(
            "observe.detector: expected a folder, hub id or .pth of DETR for the engine detr, found none: name one,"
            " such as facebook/detr-resnet-101-dc5"
        )
    find(detector, "observe.detector", fetch=False)
    chosen = DetrPlan(DETR, config)
    _ = chosen.device
    return chosen
