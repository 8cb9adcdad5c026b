"""The observer ``attributes/captions``: a sentence about each image, for comparison with its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.observe.observer import ImageObserver, StoredImage
from probes.config.observation import CHECKER
from probes.config.schema import Config
from probes.runs import schemas as runs_schemas
from probes.runs.run import Run

KIND = "attributes/captions"


class CaptionObserver(ImageObserver):
    """Stores a caption of each image, verbatim but for outer spaces; its model has ``captions(images)``."""

    schema, batch_field = runs_schemas.CAPTIONS, "observe.captions.batch"

    def __str__(self) -> str:
        return f"captions, {self.model}"

    def read(self, images: Sequence[StoredImage]) -> Sequence[str]:
        """A caption of each image."""
        return self.model.captions([image.pixels for image in images])

    def rows(self, image: StoredImage, seen: str | None) -> list[dict[str, Any]]:
        """One row per image: its caption, or why there is none."""
        return [{"caption": seen, "reason": image.fault}]

    def record(self, run: Run) -> dict[str, Any]:
        """Return who wrote the captions."""
        identity = {"captioner": str(self.model), **self.model.identity()}
        return {KIND: {**identity, "versions": self.versions}}


def caption_observer(config: Config) -> tuple[CaptionObserver | None, str]:
    """The observer of captions where a configuration names a model for it; else none, and nothing to say about it."""
    settings = config.observe.captions
    if settings.model is None:
        return None, ""
    model: Any
    if settings.model == CHECKER:
        from analysis.observe.captions.checker import CheckerCaptioner

        model = CheckerCaptioner()
    else:
        from analysis.observe.captions.blip import BlipCaptioner

        model = BlipCaptioner(settings)
    return CaptionObserver(config, model, KIND, settings.batch), ""
