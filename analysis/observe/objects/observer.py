"""The observer of objects: tags to look for, an engine that finds them, and what is stored of both."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from analysis.observe.objects.detection import DROPPED, DetectionEngine, Found
from analysis.observe.objects.tags.tags import Tags
from analysis.observe.observer import Observer, StoredImage
from probes.config.schema import Config, Observe
from probes.models.weights import pick_device
from probes.runs import schemas as runs_schemas
from probes.runs.images import encode_mask
from probes.runs.parts import digest
from probes.runs.run import Run


class ObjectObserver(Observer):
    """Finds objects, with boxes and masks, by an engine; see :class:`analysis.observe.observer.Observer`."""

    name = "objects"
    schemas = MappingProxyType({"objects": runs_schemas.OBJECTS, "observed": runs_schemas.OBSERVED})
    engine_name: ClassVar[str]
    libraries: tuple[str, ...]  # of which the versions are recorded

    def __init__(self, config: Config):
        self.config = config
        self._engine: DetectionEngine | None = None
        self._tags: Tags | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_tags": None}

    @property
    def settings(self) -> Observe:
        """The section ``observe``."""
        return self.config.observe

    @property
    def batch(self) -> int:
        """Images that the engine takes in one go."""
        return self.settings.batch

    @cached_property
    def device(self) -> Any:
        """The torch device."""
        return pick_device(self.settings.device, "observe.device", prefer=self.config.generate.device)

    @property
    def device_type(self) -> str:
        """The kind of torch device."""
        return self.device.type

    @property
    def resolved(self) -> dict[str, Any]:
        """Section ``observe`` with what was left open as it is used; the device stays open for another machine."""
        return {**self.settings.model_dump(mode="json"), "engine": self.engine_name}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the libraries that the engine needs."""
        return {name: metadata.version(name) for name in ("triptych", *self.libraries)}

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
        pixels = {index: image.pixels for index, image in enumerate(images) if image.pixels is not None}
        prompts = [(images[index].prompt, *images[index].others) for index in pixels]
        tags = dict(zip(pixels, self._tags([*pixels.values()], prompts)))
        searched = [index for index in pixels if tags[index]]
        detected = self._engine.detect([pixels[i] for i in searched], [list(tags[i]) for i in searched])
        results = dict(zip(searched, detected))
        objects: list[dict[str, Any]] = []
        observed: list[dict[str, Any]] = []
        for index, image in enumerate(images):
            image_tags, result = tags.get(index, {}), results.get(index)
            observed.append({**image.key, **_observation(image, result, image_tags)})
            objects += [{**image.key, **entry} for entry in _entries(result, image_tags)] if result else []
        return {"objects": objects, "observed": observed}

    def record(self, run: Run) -> dict[str, Any]:
        """The engine and how often it found what, under ``observer``."""
        engine = {"engine": self.engine_name, **self.described(), "versions": self.versions}
        return {"observer": {**engine, "counts": counts(run)}}


def counts(run: Run) -> dict[str, int]:
    """Return how many images were observed and how many could not be read, and the outcomes of candidates."""
    numbers = [
        name
        for name in runs_schemas.OBSERVED.names
        if name.startswith("dropped_") or name in ("detected", "kept")
    ]
    frame = run.read("observed", ["status", *numbers])
    return {
        "images": len(frame),
        "unreadable": int((frame["status"] == "unreadable").sum()),
        **{name: int(frame[name].sum()) for name in numbers},
    }


def description(path: Path) -> str:
    """Return a digest of what says how a checkpoint is to be read: the JSON beside it, or those in the folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path.with_suffix(".json")]
    return digest("".join(file.read_text(encoding="utf-8") for file in files if file.exists()))


def _observation(image: StoredImage, detected: Found | None, tags: Mapping[str, str]) -> dict[str, Any]:
    dropped = Counter(detected.dropped if detected else {})
    kept = len(detected.detections) if detected else 0
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
