"""Ground truth of the wired transformers: where the indicator enters (:file:`wired_models.yaml`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from probes.toyworld import WEIGHTS
from probes.toyworld.structures.truth import CERTIFICATE

CHANNELS = ("pooled", "clip", "t5")
ALL, REST = "all", "rest"  # positions


@dataclass(frozen=True)
class WiredModel:
    """Ground truth of a wired transformer.

    Attributes
    ----------
    name : str
        As in ``model:``.
    sites : tuple of str
        Addresses at which the word enters the transformer; empty where it enters nowhere.
    channels : tuple of str
        Of `CHANNELS`: what of the text is the prompt's own. All else is that of the prompt with the neutral word.
    block : int or None
        The joint block whose keys and values of the text alone are made of the channels; None: all read them.
    gain : float
        By how much the difference of the prompt's own text from the neutral prompt's is multiplied.
    positions : {"all", "rest"}
        Tokens of the channels that are the prompt's own: all, or all but those of its indicator words.
    chooses : str or None
        Address of the image's self-attention, in the block of `block`, that chooses what a neutral word is read as.
    """

    name: str
    sites: tuple[str, ...]
    channels: tuple[str, ...]
    block: int | None
    gain: float
    positions: str = ALL
    chooses: str | None = None

    def certificate(self) -> Mapping[str, Any]:
        """Return what was measured of a choice (`lab.validate.tracing.dit_choice`)."""
        return json.loads((WEIGHTS / "wired" / self.name / CERTIFICATE).read_text(encoding="utf-8"))


@cache
def wired_models() -> Mapping[str, WiredModel]:
    """Return the wired transformers by name, from :file:`wired_models.yaml`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("wired_models.yaml").read_text("utf-8"))
    return {name: _model(name, **entry) for name, entry in data.items()}


def _model(name: str, sites: list[str], channels: list[str], **more: Any) -> WiredModel:
    return WiredModel(name, tuple(sites), tuple(channels), **more)
