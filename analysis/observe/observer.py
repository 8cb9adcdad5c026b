"""Observers, which the observe stage (:mod:`analysis.observe.stage`) runs over stored images.

A new observer is a class of this kind and an entry in :mod:`analysis.observe.registry`; the stage is not touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from probes.config.schema import Config
from probes.models.weights import pick_device
from probes.runs.run import Run

if TYPE_CHECKING:
    import torch

KEY = ("sample_id", "triplet", "seed", "indicator")  # the columns that say which image a row is of


@dataclass(frozen=True)
class StoredImage:
    """One image of a run: the columns of `KEY`, its prompt and its pixels, ``(height, width, 3)`` uint8 RGB.

    Of one that cannot be read ``pixels`` is None and ``fault`` says why. ``others`` are the prompts of the other images
    of its triplet and seed, where they differ from its own.
    """

    key: Mapping[str, Any]
    prompt: str
    pixels: np.ndarray | None
    fault: str = ""
    others: tuple[str, ...] = ()


class Observer(ABC):
    """Observer of a run's images; `str` gives in one line what it finds, and with what.

    Attributes
    ----------
    config : Config
        The run's configuration.
    name : str
        For messages and progress bars.
    schemas : mapping of str to pyarrow.Schema
        The columns of its parts by kind, in the order they are written; the kinds are folders of the run, among or in
        those of `probes.runs.schemas.OBSERVED_KINDS`, or they would outlive ``--overwrite``.
    batch : int
        Images that are observed in one batch; one that alters what is seen is among the `fields`.
    whole_triplets : bool
        Whether all images of a triplet and seed are to be observed in one batch; there may then be more than `batch`.
    files : sequence of Path
        The weights of its models; those that have few parameters are given one thread.
    libraries : sequence of str
        Packages of its models, whose versions are recorded.
    resolved : mapping
        Section ``observe`` of the configuration with what was left open as it is used; nothing where another machine
        may hold the weights in another place.
    """

    config: Config
    name: str
    schemas: Mapping[str, pa.Schema]
    batch: int
    whole_triplets: bool = False
    files: Sequence[Path] = ()
    libraries: Sequence[str] = ()
    resolved: Mapping[str, Any] = MappingProxyType({})

    @cached_property
    def device(self) -> torch.device:
        """The torch device."""
        return pick_device(self.config.observe.device, "observe.device", prefer=self.config.generate.device)

    @property
    def device_type(self) -> str:
        """The kind of torch device: cpu, cuda, mps."""
        return self.device.type

    @property
    def parameters(self) -> int:
        """Parameters of its models, about: as if all were float32."""
        return sum(file.stat().st_size for file in self.files) // 4

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages of its models."""
        return {name: metadata.version(name) for name in ("triptych", *self.libraries)}

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Every field of the configuration, and every checkpoint, that alters what is seen: the identity of parts."""

    @abstractmethod
    def load(self) -> None:
        """Load the models; once in every observing process."""

    @abstractmethod
    def observe(self, images: Sequence[StoredImage]) -> Mapping[str, list[dict[str, Any]]]:
        """Observe a batch; give the rows of every kind, in the order of the images."""

    @abstractmethod
    def record(self, run: Run) -> Mapping[str, Any]:
        """Return what ``run.json`` keeps of it, by its key there, once all images are observed."""


class ImageModel:
    """What an `ImageObserver` looks with: by no network unless a class says otherwise; `str` names it."""

    libraries: Sequence[str] = ()
    files: Sequence[Path] = ()

    def identity(self) -> Mapping[str, Any]:
        """All that alters what it sees but its batch: weights, settings, versions."""
        raise NotImplementedError

    def load(self, device: Any) -> None:
        """Load its networks onto a torch device."""


class ImageObserver(Observer):
    """Observer that stores one kind of parts (`name`), of each image by itself, by a model on a torch device.

    ``batch_field`` of the configuration says the batch, where that alters what is seen.
    """

    schema: ClassVar[pa.Schema]
    batch_field: ClassVar[str] = ""

    def __init__(self, config: Config, model: Any, name: str, batch: int):
        self.config, self.model, self.name, self.batch = config, model, name, batch

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of its parts."""
        return {self.name: self.schema}

    @property
    def files(self) -> Sequence[Path]:
        """The weights of its model."""
        return self.model.files

    @property
    def libraries(self) -> Sequence[str]:
        """Packages of its model."""
        return self.model.libraries

    def fields(self) -> dict[str, Any]:
        """The model's identity, batch and device."""
        return {
            **{f"{self.name}.{name}": value for name, value in self.model.identity().items()},
            **({self.batch_field: self.batch} if self.batch_field else {}),
            "observe.device": self.device_type,
        }

    def load(self) -> None:
        """Load the model."""
        self.model.load(self.device)

    @abstractmethod
    def read(self, images: Sequence[StoredImage]) -> Sequence[Any]:
        """Return what the model gives of each image; all can be read, and there is one at least."""

    @abstractmethod
    def rows(self, image: StoredImage, seen: Any) -> list[dict[str, Any]]:
        """Return the rows of an image, without the columns of `KEY`; of one that cannot be read `seen` is None."""

    def observe(self, images: Sequence[StoredImage]) -> dict[str, list[dict[str, Any]]]:
        """Rows of the images in order: what is seen, or why nothing is."""
        readable = [image for image in images if image.pixels is not None]
        results = iter(self.read(readable) if readable else ())
        return {
            self.name: [
                {**image.key, **row}
                for image in images
                for row in self.rows(image, None if image.pixels is None else next(results))
            ]
        }
