"""Plans of object detection: of any engine, and of those that read toyworld's colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.tags.tags import Tags, fixed
from probes.config.schema import Config, Observe
from probes.models.devices import pick_device
from probes.runs.parts import digest

CHECKER, SCENES, DETR, GROUNDED = "toyworld-checker", "toyworld-scenes", "detr", "groundingdino"
_LIBRARIES = {
    CHECKER: ("triptych",),
    GROUNDED: (
        "triptych",
        "torch",
        "torchvision",
        "transformers",
        "groundingdino-py",
        "segment-anything",
    ),
    SCENES: ("triptych", "scipy"),
    DETR: ("triptych", "torch", "transformers", "timm"),
    "ram": ("timm",),
}


@dataclass(frozen=True)
class ObservationPlan:
    """Plan of the observe stage for objects; `str` gives it in one line.

    ``name`` is the engine; ``skipped`` why nothing will be observed, empty where something will.
    """

    name: str
    config: Config
    skipped: str = ""

    def __str__(self) -> str:
        return f"skipped: {self.skipped}"

    @property
    def settings(self) -> Observe:
        """The section ``observe``."""
        return self.config.observe

    @property
    def resolved(self) -> dict[str, Any]:
        """The section ``observe`` with what was left open as it is used, for the configuration in ``run.json``.

        The device stays open: another machine may go on with the run.
        """
        return {**self.settings.model_dump(mode="json"), "engine": self.name}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the libraries that the engine needs."""
        libraries = _LIBRARIES[self.name] + (_LIBRARIES["ram"] if "ram" in (self.settings.tags or ()) else ())
        return {name: metadata.version(name) for name in libraries}


class ModelPlan(ObservationPlan):
    """Vision models will look, on a torch device."""

    @property
    def batch(self) -> int:
        """Images that the detector takes in one go."""
        return self.settings.batch

    @cached_property
    def device(self) -> Any:
        """The torch device."""
        return pick_device(self.settings.device, "observe.device", prefer=self.config.generate.device)

    @property
    def device_type(self) -> str:
        """The kind of torch device."""
        return self.device.type


class CheckerPlan(ObservationPlan):
    """The toyworld checker will look."""

    batch = 64  # images read in one go
    device_type = "cpu"
    parameters = 0

    def __str__(self) -> str:
        from probes.toyworld.checker import TAGS

        return f"{CHECKER}, {len(TAGS)} things by their palette colours, no vision model"

    @property
    def everywhere(self) -> Sequence[str]:
        """What the palette shows."""
        from probes.toyworld.checker import TAGS

        return TAGS

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        return {"observe.engine": self.name, "observe.detector": self.detector}

    @property
    def detector(self) -> str:
        """Name and version of the detector."""
        from analysis.observe.objects.models.toyworld_checker import ToyworldChecker

        return ToyworldChecker.detector

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        from analysis.observe.objects.models.toyworld_checker import ToyworldChecker

        return ToyworldChecker()

    def tags(self) -> Tags:
        """Return the tags to look for in each image."""
        return fixed(self.everywhere, "checker")

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps about the observer."""
        return {
            "engine": self.name,
            "detector": self.detector,
            "segmenter": self.detector,
            "tags": ["checker"],
            "checkpoints": {},
            "thresholds": {},
            "versions": self.versions,
        }


class ScenesPlan(CheckerPlan):
    """The reader of toyworld's skills will look."""

    def __str__(self) -> str:
        return f"{SCENES}, every object by its palette colour, no vision model"

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        from analysis.observe.objects.models.toyworld_scenes import ToyworldScenes

        return ToyworldScenes()

    @property
    def everywhere(self) -> Sequence[str]:
        """Every object of the scenes."""
        from probes.toyworld.skills import OBJECTS

        return OBJECTS

    @property
    def detector(self) -> str:
        """Name and version of the detector."""
        from probes.toyworld.skills import VERSION

        return VERSION


def parameters(files: Iterable[Path]) -> int:
    """Return the number of parameters in files of weights, about: in float32, as they are loaded."""
    return sum(file.stat().st_size for file in files) // 4


def description(path: Path) -> str:
    """Return a digest of what says how a checkpoint is to be read: the JSON beside it, or those in the folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path.with_suffix(".json")]
    return digest("".join(file.read_text(encoding="utf-8") for file in files if file.exists()))
