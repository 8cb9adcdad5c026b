"""The observer ``attributes/captions``: a sentence about each image, for comparison with its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.observe.observer import ImageObserver, StoredImage
from probes.config.observation import CHECKER
from probes.config.schema import Config
from probes.runs import schemas as runs_schemas
from probes.runs.parts import read_part
from probes.runs.run import Run

KIND = "attributes/captions"


@dataclass
class CaptionObserver(ImageObserver):
    """Stores a caption of each image, verbatim but for outer spaces; its model has ``captions(images)``."""

    schema, kind, batch_field = runs_schemas.CAPTIONS, KIND, "observe.captions.batch"

    def __str__(self) -> str:
        return f"captions, {self.model}"

    @property
    def batch(self) -> int:
        """Images that are captioned in one go."""
        return self.config.observe.captions.batch

    def read(self, images: Sequence[StoredImage]) -> Sequence[str]:
        """A caption of each image."""
        return self.model.captions([image.pixels for image in images])

    def rows(self, image: StoredImage, seen: str | None) -> list[dict[str, Any]]:
        """One row per image: its caption, or why there is none."""
        return [{"caption": seen, "reason": image.fault}]

    def record(self, run: Run) -> dict[str, Any]:
        """Return who wrote the captions, and how many there are, are empty, and could not be made."""
        captions = [
            one for file in run.parts(KIND) for one in read_part(file, ["caption"])["caption"].to_pylist()
        ]
        counts = {
            "captions": sum(one is not None for one in captions),
            "empty": captions.count(""),
            "missing": captions.count(None),
        }
        identity = {"captioner": str(self.model), **self.model.identity()}
        return {KIND: {**identity, "versions": self.versions, "counts": counts}}


def caption_observer(config: Config) -> tuple[CaptionObserver | None, str]:
    """The observer of captions where a configuration names a model for it; else none, and nothing to say about it."""
    name = config.observe.captions.model
    if name is None:
        return None, ""
    if name == CHECKER:
        from analysis.observe.captions.checker import CheckerCaptioner

        return CaptionObserver(config, CheckerCaptioner()), ""
    from analysis.observe.captions.blip import BlipCaptioner

    return CaptionObserver(config, BlipCaptioner(config.observe.captions)), ""
