"""The observer of objects: tags to look for, an engine that finds them, and what is stored of both."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from analysis.observe.objects.detection import DROPPED, DetectionEngine, Found
from analysis.observe.objects.tags.tags import Tags
from analysis.observe.observer import Observer, StoredImage
from probes.config.schema import Config, Observe
from probes.runs import schemas as runs_schemas
from probes.runs.images import encode_mask
from probes.runs.parts import digest
from probes.runs.run import Run


class ObjectObserver(Observer):
    """Finds objects, with boxes and masks, by an engine; see :class:`analysis.observe.observer.Observer`."""

    name = "objects"
    schemas = MappingProxyType({"objects": runs_schemas.OBJECTS, "observed": runs_schemas.OBSERVED})
    engine_name: ClassVar[str]

    def __init__(self, config: Config):
        self.config = config

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

    @abstractmethod
    def engine(self) -> DetectionEngine:
        """The engine, loaded."""

    @abstractmethod
    def tags(self) -> Tags:
        """Return the tags to look for in each image."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Detector, segmenter, tags, checkpoints and thresholds, for ``run.json``."""

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
