"""Ground truth of the causal structures: which places decide, and how together (:file:`benchmark_models.yaml`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from probes.toyworld import WEIGHTS
from probes.toyworld.located.truth import block_of

CERTIFICATE = "certificate.json"
Sites = tuple[str, ...]


@dataclass(frozen=True)
class StructurePlace:
    """A cross-attention that has a part in a causal structure."""

    site: str
    weights: str | None = None  # the located model whose block stands there; None: it shows nothing itself
    reversed: bool = False  # feminine and masculine codes change places in its keys and values
    hears: str | None = None  # an earlier site, whose word it shows where its own is neutral

    @property
    def block(self) -> str:
        """The transformer block in the U-Net."""
        return block_of(self.site)


@dataclass(frozen=True)
class CausalStructure:
    """Ground truth of a causal structure; the sets of sites are empty where effects are graded."""

    name: str
    kind: str  # redundant or opposing
    places: tuple[StructurePlace, ...]  # in the order in which they run
    sufficient: tuple[Sites, ...] = ()  # the smallest sets that are enough for the whole effect
    needed: tuple[Sites, ...] = ()  # the smallest sets without which nothing is left of it
    world: str = "toyworld"

    @property
    def sites(self) -> Sites:
        """Addresses of its places."""
        return tuple(place.site for place in self.places)

    def certificate(self) -> Mapping[str, Any]:
        """Return what was measured of its places (`lab.validate.tracing.certificates`)."""
        return json.loads((WEIGHTS / "structures" / self.name / CERTIFICATE).read_text(encoding="utf-8"))


@cache
def structures() -> Mapping[str, CausalStructure]:
    """Return the causal structures by name, from :file:`benchmark_models.yaml`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("benchmark_models.yaml").read_text("utf-8"))
    return {name: _structure(name, entry) for name, entry in data.items()}


def _structure(name: str, entry: Mapping[str, Any]) -> CausalStructure:
    places = tuple(StructurePlace(**place) for place in entry["places"])
    sets = {key: tuple(map(tuple, entry.get(key, ()))) for key in ("sufficient", "needed")}
    return CausalStructure(name, entry["kind"], places, **sets)
