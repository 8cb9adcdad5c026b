"""The protocol of observers, which the observe stage (:mod:`analysis.observe.stage`) runs over stored images.

A new observer (features, attributes, captions) is a class of this kind and an entry in
:mod:`analysis.observe.registry`; the stage is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from probes.runs.store import Run

KEY = ("sample_id", "triplet", "seed", "indicator")  # the columns that say which image a row is of


@dataclass(frozen=True)
class StoredImage:
    """One image of a run.

    Attributes
    ----------
    key : mapping
        The columns of `KEY`.
    prompt : str
    pixels : numpy.ndarray or None
        ``(height, width, 3)`` uint8 RGB; None where it cannot be read.
    fault : str
        Why it cannot be read; else empty.
    others : tuple of str
        The prompts of the other images of its triplet and seed, where they differ from its prompt.
    """

    key: Mapping[str, Any]
    prompt: str
    pixels: np.ndarray | None
    fault: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Needs:
    """Resources that one observing process needs.

    Attributes
    ----------
    device : str
        The kind of torch device: ``cpu``, ``cuda``, ``mps``.
    parameters : int
        Of the models that are loaded, about; 0 where there are none.
    seconds : float
        An image takes on one core, about.
    versions : mapping of str to str
        Of the libraries.
    """

    device: str
    parameters: int
    seconds: float
    versions: Mapping[str, str]


class Observer(Protocol):
    """Observer of a run's images; `str` gives in one line what it finds, and with what.

    It can be pickled, without the models that it has loaded, so that several processes may look.

    Attributes
    ----------
    name : str
        For messages and progress bars.
    schemas : mapping of str to pyarrow.Schema
        The columns of its parts by kind, in the order they are written; the kinds are folders of the run, among
        `probes.runs.directory.OBSERVED` or in ``features/`` or ``attributes/``, or they would outlive ``--overwrite``.
    batch : int
        Images that are observed in one batch; one that alters what is seen is among the `fields`.
    whole_triplets : bool
        Whether all images of a triplet and seed are to be observed in one batch; there may then be more than `batch`.
    resolved : mapping
        Section ``observe`` of the configuration with what was left open as it is used.
    """

    name: str
    schemas: Mapping[str, pa.Schema]
    whole_triplets: bool

    @property
    def batch(self) -> int: ...

    @property
    def resolved(self) -> Mapping[str, Any]: ...

    def needs(self) -> Needs:
        """Return the resources that a process needs."""
        ...

    def fields(self) -> dict[str, Any]:
        """Every field of the configuration, and every checkpoint, that alters what is seen: the identity of parts."""
        ...

    def load(self) -> None:
        """Load the models; once in every observing process."""
        ...

    def observe(self, images: Sequence[StoredImage]) -> Mapping[str, list[dict[str, Any]]]:
        """Observe a batch; give the rows of every kind, in the order of the images."""
        ...

    def record(self, run: Run) -> Mapping[str, Any]:
        """Return what ``run.json`` keeps of it, by its key there, once all images are observed."""
        ...
