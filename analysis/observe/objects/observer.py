"""The observer of objects: tags to look for, an engine that finds them, and what is stored of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from analysis.observe.objects.detection import DROPPED, DetectionEngine, Found
from analysis.observe.objects.engines.engines import engine_plan
from analysis.observe.objects.engines.plans import ObservationPlan
from analysis.observe.objects.tags.tags import Tags
from analysis.observe.observer import Needs, StoredImage
from probes.config.schema import Config
from probes.runs import schemas as runs_schemas
from probes.runs.coco_masks import encode
from probes.runs.run import Run


class ObjectObserver:
    """Finds objects, with boxes and masks; see :class:`analysis.observe.observer.Observer`."""

    name = "objects"
    schemas = MappingProxyType({"objects": runs_schemas.OBJECTS, "observed": runs_schemas.OBSERVED})
    whole_triplets = False

    def __init__(self, plan: ObservationPlan):
        self.plan = plan
        self._engine: DetectionEngine | None = None
        self._tags: Tags | None = None

    def __str__(self) -> str:
        return str(self.plan)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_tags": None}

    @property
    def batch(self) -> int:
        """Images that the engine takes in one go."""
        return self.plan.batch

    @property
    def resolved(self) -> dict[str, Any]:
        """Section ``observe`` with what was left open as it is used."""
        return self.plan.resolved

    def needs(self) -> Needs:
        """Device, size and libraries of the engine."""
        return Needs(self.plan.device_type, self.plan.parameters, self.plan.versions)

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen."""
        return self.plan.fields()

    def load(self) -> None:
        """Load the engine and the sources of tags."""
        self._engine, self._tags = self.plan.engine(), self.plan.tags()

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
        return {"observer": {**self.plan.record(), "counts": counts(run)}}


def object_observer(config: Config) -> tuple[ObjectObserver | None, str]:
    """The observer of objects that a configuration asks for; or none, and why."""
    plan = engine_plan(config)
    return (None, plan.skipped) if plan.skipped else (ObjectObserver(plan), "")


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
            "mask": encode(detection.mask),
            "height": height,
            "width": width,
        }
