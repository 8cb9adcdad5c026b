"""The observer ``attributes/captions``: a sentence about each image, for comparison with its prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from analysis.observe.observer import Needs, StoredImage
from probes.config.caption_options import CHECKER
from probes.config.schema import Config
from probes.models.devices import pick_device
from probes.runs import schemas as runs_schemas
from probes.runs.parts import read_part
from probes.runs.store import Run

if TYPE_CHECKING:
    import torch

KIND = "attributes/captions"


class Captioner(Protocol):
    """Writes a sentence about each image.

    Attributes
    ----------
    libraries : tuple of str
        Packages whose versions are recorded.
    """

    libraries: tuple[str, ...]

    def parameters(self) -> int:
        """Number of parameters of its network, about; 0 where there is none."""
        ...

    def seconds(self) -> float:
        """Time of an image on one core, about."""
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
class CaptionObserver:
    """Stores a caption of each image; see :class:`analysis.observe.observer.Observer`.

    Parameters
    ----------
    captioner : Captioner
    config : Config
    """

    captioner: Captioner
    config: Config

    name = KIND
    whole_triplets = False

    def __str__(self) -> str:
        return f"captions, {self.captioner}"

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """One row per image."""
        return MappingProxyType({KIND: runs_schemas.CAPTIONS})

    @property
    def batch(self) -> int:
        """Images that are captioned in one go."""
        return self.config.observe.captions.batch

    @property
    def resolved(self) -> dict[str, Any]:
        """Return no resolved settings: another machine may hold the weights in another place."""
        return {}

    @cached_property
    def device(self) -> torch.device:
        """The torch device that the captioner works on."""
        return pick_device(self.config.observe.device, "observe.device", prefer=self.config.generate.device)

    def needs(self) -> Needs:
        """Device, size, time and libraries of the captioner."""
        names = ("triptych", *self.captioner.libraries)
        return Needs(
            device=self.device.type,
            parameters=self.captioner.parameters(),
            seconds=self.captioner.seconds(),
            versions={name: metadata.version(name) for name in names},
        )

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

    def observe(self, images: Sequence[StoredImage]) -> dict[str, list[dict[str, Any]]]:
        """One row per image: its caption, or why there is none."""
        there = [index for index, image in enumerate(images) if image.pixels is not None]
        generated = self.captioner.captions([images[index].pixels for index in there]) if there else []
        captions = dict(zip(there, generated, strict=True))
        rows = [
            {**image.key, "caption": captions.get(index), "reason": image.fault}
            for index, image in enumerate(images)
        ]
        return {KIND: rows}

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
    """The observer of captions where a configuration names a model for it; else none, and nothing to say about it.

    Raises
    ------
    UserError
        Its weights cannot be had.
    """
    name = config.observe.captions.model
    if name is None:
        return None, ""
    if name == CHECKER:
        from analysis.observe.captions.checker import CheckerCaptioner

        return CaptionObserver(CheckerCaptioner(), config), ""
    from analysis.observe.captions.blip import BlipCaptioner

    return CaptionObserver(BlipCaptioner(config.observe.captions), config), ""
