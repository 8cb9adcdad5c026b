"""Ground truth of the benchmark models whose places are known: where the indicator enters (:file:`places.yaml`)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from probes.toyworld import REGISTRY, bundled_folder

CERTIFICATE = "certificate.json"


@dataclass(frozen=True)
class KnownPlace:
    """Ground truth of one site: the indicator word enters there, or it has a part in a causal structure."""

    site: str
    weights: str | None = None  # the located model whose block stands there; None: it shows nothing itself
    reversed: bool = False  # feminine and masculine codes change places in its keys and values
    hears: str | None = None  # an earlier site, whose word it shows where its own is neutral

    @property
    def block(self) -> str:
        """Module path of the U-Net's transformer block that this site, a cross-attention, belongs to."""
        kind, *stage, _, number, _ = self.site.removeprefix("unet.").split(".")
        name = {"down": "down_blocks", "mid": "mid_block", "up": "up_blocks"}[kind]
        return ".".join([name, *stage, "attentions", number, "transformer_blocks", "0"])


@dataclass(frozen=True)
class KnownPlaces:
    """Ground truth of a benchmark model: sites where the word enters; of structures, which suffice or are needed."""

    name: str
    kind: str  # null, cross-attention, joint, redundant or opposing
    places: tuple[KnownPlace, ...]  # in the order in which they run: by them alone the word enters
    world: str = "toyworld"  # whose planted frequencies its words are to follow
    sufficient: Sequence[Sequence[str]] = ()  # the smallest sets that are enough for the whole effect
    needed: Sequence[Sequence[str]] = ()  # the smallest sets without which nothing is left of it
    gain: float = 1.0  # of the difference of the prompt's own text from the neutral prompt's

    @property
    def sites(self) -> tuple[str, ...]:
        """Addresses of the sites where the word enters, in the order in which they run."""
        return tuple(place.site for place in self.places)

    def certificate(self) -> Mapping[str, Any]:
        """Return the measured causal effects of the model's sites, alone and together, from ``certificate.json``."""
        return json.loads((bundled_folder(self.name) / CERTIFICATE).read_text(encoding="utf-8"))


@cache
def known_places(group: str) -> Mapping[str, KnownPlaces]:
    """Return, by model name, where the word enters in the models of a group: ``located``, ``structures``, ``wired``."""
    data = yaml.safe_load(resources.files(__package__).joinpath("places.yaml").read_text("utf-8"))
    return {
        name: KnownPlaces(name, **{**entry, "places": tuple(KnownPlace(**one) for one in entry["places"])})
        for name, entry in data.items()
        if REGISTRY[name].group == group
    }
