"""Source of a model, and the places of its files. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from probes.models import weight_files

CARD = "triptych.json"  # what a model was made for


@dataclass(frozen=True)
class Source:
    """Source of a model: its name in ``triplets.yaml``, and the folder or file on this machine.

    `kind` is ``bundled``, ``hub``, ``folder`` or ``file``; `config` is the folder that describes the pipeline;
    `revision` the commit of a model of the hub; `variant` the weights that are asked for, None for full precision;
    `bases` other models' folders, whose files stand in, in this order, for those that this one lacks.
    """

    name: str
    kind: str
    path: Path
    config: Path
    revision: str | None = None
    variant: str | None = None
    bases: tuple[Path, ...] = ()

    def described(self, name: str) -> Path:
        """A file or folder of the description: the model's or, where it lacks one, that of a base."""
        places = [folder / name for folder in (self.config, *self.bases)]
        return next((place for place in places if place.exists()), places[0])

    def component(self, name: str) -> Path:
        """The folder that holds a component's weights."""
        places = [folder / name for folder in (self.path, *self.bases)]
        return next(
            (place for place in places if weight_files.names(place) or weight_files.variants(place)),
            places[0],
        )

    @property
    def card(self) -> Path:
        """Path of a model's card, if it has one: in the folder of its description, or beside a single file."""
        beside = self.path.parent / CARD
        return beside if self.kind == "file" and beside.exists() else self.described(CARD)
