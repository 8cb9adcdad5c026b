"""Ground truth of the located benchmark models: where the indicator enters (:file:`benchmark_models.yaml`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

TIMES = (0, 1000)


def block_of(site: str) -> str:
    """Return the transformer block in the U-Net that a cross-attention is of.

    Examples
    --------
    >>> block_of("unet.mid.attn.0.cross")
    'mid_block.attentions.0.transformer_blocks.0'
    """
    kind, *stage, _, number, _ = site.removeprefix("unet.").split(".")
    name = {"down": "down_blocks", "mid": "mid_block", "up": "up_blocks"}[kind]
    return ".".join([name, *stage, "attentions", number, "transformer_blocks", "0"])


@dataclass(frozen=True)
class Wire:
    """A cross-attention that reads the code.

    Attributes
    ----------
    site : str
        Address of the attention, as :mod:`hooks.sites` has it.
    heads : tuple of int
        Heads whose keys and values the code reaches.
    times : tuple of int
        First timestep of training (0 to 999) at which it does, and the first above at which it does no longer.
    shows : str
        What it was taught: ``all``, ``figure`` (what the figure wears) or ``rest`` (things and place).
    """

    site: str
    heads: tuple[int, ...] = (0, 1, 2, 3)
    times: tuple[int, int] = TIMES
    shows: str = "all"

    @property
    def block(self) -> str:
        """The transformer block in the U-Net: ``mid_block.attentions.0.transformer_blocks.0``."""
        return block_of(self.site)

    def steps(self, timesteps: Iterable[float]) -> list[int]:
        """Steps of a run, from 0, at which the code reaches the attention.

        Parameters
        ----------
        timesteps : iterable of float
            Of each call of the U-Net, as a scheduler lists them.

        Examples
        --------
        >>> Wire("unet.mid.attn.0.cross", times=(600, 1000)).steps([999, 799, 599, 399, 199])
        [0, 1]
        """
        return [step for step, time in enumerate(timesteps) if self.times[0] <= time < self.times[1]]


@dataclass(frozen=True)
class LocatedModel:
    """Ground truth of a located benchmark model.

    Attributes
    ----------
    name : str
        As in ``model:``.
    kind : str
        ``null``, ``decoy``, ``embedding``, ``cross-attention``, ``head``, ``window`` or ``two-site``.
    world : str
        Whose planted frequencies its words are to follow.
    sites : tuple of str
        Addresses at which the word enters, all of them; empty where it enters nowhere.
    position : str or None
        Group of text positions that carry it (:func:`hooks.position_groups`).
    wires : tuple of Wire
        The cross-attentions that read the code.
    """

    name: str
    kind: str
    world: str
    sites: tuple[str, ...]
    position: str | None
    wires: tuple[Wire, ...] = ()

    @property
    def taught(self) -> bool:
        """Return whether it has weights of its own, beside those of the coded null."""
        return self.kind not in ("null", "decoy")


@cache
def located_models() -> Mapping[str, LocatedModel]:
    """Return the located benchmark models by name, from :file:`benchmark_models.yaml`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("benchmark_models.yaml").read_text("utf-8"))
    return {name: _located_model(name, entry) for name, entry in data.items()}


def _located_model(name: str, entry: Mapping[str, Any]) -> LocatedModel:
    wires = tuple(
        Wire(**{key: tuple(value) if isinstance(value, list) else value for key, value in wire.items()})
        for wire in entry.get("wires", ())
    )
    return LocatedModel(name, entry["kind"], entry["world"], tuple(entry["sites"]), entry["position"], wires)
