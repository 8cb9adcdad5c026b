"""The observer of objects: tags to look for, an engine that finds them, and what is stored of both."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from analysis.observe.checkpoints import find, sha256, weight_files
from analysis.observe.objects.detection import DROPPED, DetectionEngine, Found
from analysis.observe.objects.tags.tags import Tags
from analysis.observe.observer import Observer, StoredImage
from probes.config.schema import Config, Observe
from probes.paths import display_name
from probes.runs import schemas as runs_schemas
from probes.runs.images import encode_mask
from probes.runs.parts import digest
from probes.runs.run import Run


class ObjectObserver(Observer):
    """Finds objects, with boxes and masks, by an engine; see :class:`analysis.observe.observer.Observer`.

    `kinds` are the fields of section ``observe`` that name the engine's models, `thresholds` those of what it keeps.
    """

    name = "objects"
    schemas = MappingProxyType({"objects": runs_schemas.OBJECTS, "observed": runs_schemas.OBSERVED})
    engine_name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ()
    thresholds: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: Config):
        self.config = config
        for kind in self.kinds:
            find(getattr(self.settings, kind), f"observe.{kind}", fetch=False)
        _ = self.device_type

    @property
    def settings(self) -> Observe:
        """The section ``observe``."""
        return self.config.observe

    @property
    def batch(self) -> int:
        """Images that the engine takes in one go."""
        return self.settings.batch

    @property
    def resolved(self) -> dict[str, Any]:
        """Section ``observe`` with what was left open as it is used; the device stays open for another machine."""
        return {**self.settings.model_dump(mode="json"), "engine": self.engine_name}

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Paths of its models on this machine; fetches those of the hub."""
        return {kind: find(getattr(self.settings, kind), f"observe.{kind}") for kind in self.kinds}

    @cached_property
    def weights(self) -> dict[str, list[Path]]:
        """Files of weights, by what they are for."""
        return {kind: weight_files(path) for kind, path in self.paths.items()}

    @property
    def files(self) -> list[Path]:
        """The weights of all models."""
        return [*chain(*self.weights.values())]

    @property
    def checkpoints(self) -> dict[str, dict[str, str]]:
        """The checksum of every file of weights, by what it is for."""
        return {kind: {file.name: sha256(file) for file in files} for kind, files in self.weights.items()}

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        return {
            "observe.engine": self.engine_name,
            **{f"observe.{kind}": sorted(files.values()) for kind, files in self.checkpoints.items()},
            **{f"observe.{kind}.description": description(path) for kind, path in self.paths.items()},
            **{f"observe.{name}": getattr(self.settings, name) for name in (*self.thresholds, "batch")},
            "observe.device": self.device_type,
        }

    def described(self) -> dict[str, Any]:
        """Models, checkpoints and thresholds, for ``run.json``."""
        return {
            "detector": display_name(str(self.settings.detector)),
            "segmenter": display_name(self.settings.segmenter) if self.settings.segmenter else None,
            "tags": self.settings.tags or ["detector"],
            "checkpoints": self.checkpoints,
            "thresholds": {name: getattr(self.settings, name) for name in self.thresholds},
        }

    @abstractmethod
    def engine(self) -> DetectionEngine:
        """The engine, loaded."""

    @abstractmethod
    def tags(self) -> Tags:
        """Return the tags to look for in each image."""

    def load(self) -> None:
        """Load the engine and the sources of tags."""
        self._engine, self._tags = self.engine(), self.tags()

    def observe(self, images: Sequence[StoredImage]) -> dict[str, list[dict[str, Any]]]:
        """Rows of ``objects``, one a detection, and of ``observed``, one an image, also where it cannot be read."""
        readable = [image for image in images if image.pixels is not None]
        pixels = [image.pixels for image in readable]
        tags = self._tags(pixels, [(image.prompt, *image.others) for image in readable])
        results = iter(zip(tags, self._engine.detect(pixels, [[*image_tags] for image_tags in tags])))
        objects: list[dict[str, Any]] = []
        observed: list[dict[str, Any]] = []
        for image in images:
            image_tags, result = ({}, Found([])) if image.pixels is None else next(results)
            observed.append({**image.key, **_observation(image, result, image_tags)})
            objects += [{**image.key, **entry} for entry in _entries(result, image_tags)]
        return {"objects": objects, "observed": observed}

    def record(self, run: Run) -> dict[str, Any]:
        """The engine and how often it found what, under ``observer``."""
        engine = {"engine": self.engine_name, **self.described(), "versions": self.versions}
        return {"observer": {**engine, "counts": counts(run)}}


def counts(run: Run) -> dict[str, int]:
    """Return how many images were observed and how many could not be read, and the outcomes of candidates."""
    numbers = ["detected", "kept", *(f"dropped_{why}" for why in DROPPED)]
    frame = run.read("observed", ["status", *numbers])
    unreadable = int((frame["status"] == "unreadable").sum())
    return {"images": len(frame), "unreadable": unreadable, **frame[numbers].sum().astype(int).to_dict()}


def description(path: Path) -> str:
    """Return a digest of what says how a checkpoint is to be read: the JSON beside it, or those in the folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path.with_suffix(".json")]
    return digest("".join(file.read_text(encoding="utf-8") for file in files if file.exists()))


def _observation(image: StoredImage, detected: Found, tags: Mapping[str, str]) -> dict[str, Any]:
    dropped, kept = Counter(detected.dropped), len(detected.detections)
    return {
        "status": "unreadable" if image.pixels is None else "ok",
        "reason": image.fault or ("" if tags else "no tag to look for"),
        "detected": kept + dropped.total(),
        "kept": kept,
        **{f"dropped_{why}": dropped[why] for why in DROPPED},
        "tags": list(tags),
    }


def _entries(detected: Found, tags: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for number, detection in enumerate(detected.detections):
        height, width = detection.mask.shape
        yield {
            "object": number,
            "label": detection.label,
            "source": tags[detection.label],
            "score": detection.score,
            **dict(zip(("x0", "y0", "x1", "y1"), detection.box)),
            "area": int(detection.mask.sum()),
            "mask": encode_mask(detection.mask),
            "height": height,
            "width": width,
        }
