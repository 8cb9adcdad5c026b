"""Ground truth of the causal structures: which places decide, and how together (:file:`benchmark_models.yaml`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from probes.toyworld import WEIGHTS
from probes.toyworld.located.truth import TIMES, block_of

CERTIFICATE = "certificate.json"
CHOICE = "choice"  # a kind
Sites = tuple[str, ...]


@dataclass(frozen=True)
class StructurePlace:
    """An attention that has a part in a causal structure.

    Attributes
    ----------
    site : str
        Address, as :mod:`hooks.sites` has it.
    weights : str or None
        The located benchmark model whose transformer block stands there; None: it shows nothing itself.
    reversed : bool
        Whether feminine and masculine codes change places in its keys and values.
    times : tuple of int
        First timestep of training at which it reads the code, and the first above at which it does no longer.
    rule : str or None
        One of :data:`probes.toyworld.structures.wiring.RULES`: what word it shows by what it hears.
    hears : tuple of str
        Addresses of earlier places whose reading it is told of.
    """

    site: str
    weights: str | None = None
    reversed: bool = False
    times: tuple[int, int] = TIMES
    rule: str | None = None
    hears: Sites = ()

    @property
    def chooses(self) -> bool:
        """Whether it is a self-attention, which chooses what a neutral word shows by the picture that was begun."""
        return self.site.endswith(".self")

    @property
    def block(self) -> str:
        """The transformer block in the U-Net."""
        return block_of(self.site)


@dataclass(frozen=True)
class CausalStructure:
    """Ground truth of a causal structure.

    Attributes
    ----------
    name : str
        As in ``model:``.
    kind : str
        ``redundant``, ``backup``, ``both``, ``chain``, ``opposing``, ``distributed``, ``handover`` or ``choice``.
    places : tuple of StructurePlace
        In the order in which they run.
    sufficient : tuple of tuple of str
        The smallest sets of sites that are enough for the whole effect; empty where effects are graded.
    needed : tuple of tuple of str
        The smallest sets of sites without which nothing is left of it; empty where effects are graded.
    """

    name: str
    kind: str
    places: tuple[StructurePlace, ...]
    sufficient: tuple[Sites, ...] = ()
    needed: tuple[Sites, ...] = ()
    world: str = "toyworld"

    @property
    def sites(self) -> Sites:
        """Addresses of its places."""
        return tuple(place.site for place in self.places)

    @property
    def spoken(self) -> frozenset[str]:
        """The places that must tell what they have read: those that are heard, and those whose rule asks for it."""
        heard = {site for place in self.places for site in place.hears}
        own = {place.site for place in self.places if place.rule in ("either", "both", "mean")}
        return frozenset(heard | own)

    def certificate(self) -> Mapping[str, Any]:
        """Return what was measured of its places (`lab.validate.tracing.certificates`, of choices `.choice`)."""
        return json.loads((WEIGHTS / "structures" / self.name / CERTIFICATE).read_text(encoding="utf-8"))


def structures() -> Mapping[str, CausalStructure]:
    """Return the structures by which a word decides, by name, from :file:`benchmark_models.yaml`."""
    return {name: one for name, one in all_structures().items() if one.kind != CHOICE}


def choices() -> Mapping[str, CausalStructure]:
    """Return the structures in which no word decides what a neutral one shows, by name, from the same file."""
    return {name: one for name, one in all_structures().items() if one.kind == CHOICE}


@cache
def all_structures() -> Mapping[str, CausalStructure]:
    """Return `structures` and `choices`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("benchmark_models.yaml").read_text("utf-8"))
    return {name: _structure(name, entry) for name, entry in data.items()}


def _structure(name: str, entry: Mapping[str, Any]) -> CausalStructure:
    places = tuple(
        StructurePlace(
            **{key: tuple(value) if isinstance(value, list) else value for key, value in one.items()}
        )
        for one in entry["places"]
    )
    sets = {key: tuple(map(tuple, entry.get(key, ()))) for key in ("sufficient", "needed")}
    return CausalStructure(name, entry["kind"], places, **sets)
