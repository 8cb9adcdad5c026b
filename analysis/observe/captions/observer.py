"""The observer ``attributes/captions``: a sentence about each image, for comparison with its prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from analysis.observe.observer import ImageObserver, StoredImage
from probes.config.observe_options import CHECKER
from probes.config.schema import Config
from probes.runs import schemas as runs_schemas
from probes.runs.parts import read_part
from probes.runs.run import Run

if TYPE_CHECKING:
    import torch

KIND = "attributes/captions"


class Captioner(Protocol):
    """Writes a sentence about each image; of its ``libraries`` the versions are recorded."""

    libraries: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """Number of parameters of its network, about; 0 where there is none."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """All that alters a caption: weights, prompt, search."""
        ...

    def load(self, device: torch.device) -> None:
        """Load the network."""
        ...

    def captions(self, images: Sequence[np.ndarray]) -> list[str]:
        """A caption of each image, ``(height, width, 3)`` uint8 RGB, verbatim but for outer spaces."""
        ...


@dataclass
class CaptionObserver(ImageObserver):
    """Stores a caption of each image; see :class:`analysis.observe.observer.Observer`."""

    captioner: Captioner

    schema, kind = runs_schemas.CAPTIONS, KIND

    def __str__(self) -> str:
        return f"captions, {self.captioner}"

    @property
    def batch(self) -> int:
        """Images that are captioned in one go."""
        return self.config.observe.captions.batch

    @property
    def libraries(self) -> Sequence[str]:
        """Packages of the captioner."""
        return self.captioner.libraries

    @property
    def parameters(self) -> int:
        """Size of the captioner."""
        return self.captioner.parameters

    def fields(self) -> dict[str, Any]:
        """Return every field that alters a caption: the captioner's identity, batch and device."""
        return {
            **{f"{KIND}.{name}": value for name, value in self.captioner.identity().items()},
            "observe.captions.batch": self.batch,
            "observe.device": self.device.type,
        }

    def load(self) -> None:
        """Load the captioner."""
        self.captioner.load(self.device)

    def read(self, images: Sequence[StoredImage]) -> Sequence[str]:
        """A caption of each image."""
        return self.captioner.captions([image.pixels for image in images])

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
        return {
            KIND: {
                "captioner": str(self.captioner),
                **self.captioner.identity(),
                "versions": dict(self.needs().versions),
                "counts": counts,
            }
        }


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
