"""Where the code enters a located specimen's U-Net, and the weights that put it there.

A *wire* is a cross-attention that reads the code: its keys and values have columns for the code that are not zero, for
some of its heads, within some timesteps. Beside the columns the rest of its attention and the feed-forward layer after
it are the specimen's as well, so that it can make use of what it reads; both see nothing else of the word.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import torch
import yaml
from torch import Tensor, nn

CODED = "toyworld-coded-null"
OLD = 96  # channels of text that toyworld-null reads
TIMES = (0, 1000)
TAUGHT = ("attn2", "ff", "norm2", "norm3")  # of a transformer block


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
        kind, *stage, _, number, _ = self.site.removeprefix("unet.").split(".")
        name = {"down": "down_blocks", "mid": "mid_block", "up": "up_blocks"}[kind]
        return ".".join([name, *stage, "attentions", number, "transformer_blocks", "0"])


class GatedLinear(nn.Linear):
    """Keys or values of a cross-attention that reads the code within some timesteps only.

    The gate is part of the weights, as ``times``, and so of the hash they are known by.
    """

    def __init__(self, linear: nn.Linear, clock: nn.Module, times: tuple[int, int]):
        super().__init__(linear.in_features, linear.out_features, bias=False)
        self.weight = linear.weight
        self.register_buffer("times", torch.tensor(times))
        self._clock = (clock,)  # a tuple: not a submodule

    def forward(self, text: Tensor) -> Tensor:
        """Keys or values ``(n, tokens, channels)`` of text states ``(n, tokens, 100)``."""
        now = self._clock[0].now.to(text.device)
        open_ = ((now >= self.times[0]) & (now < self.times[1])).to(text.dtype)
        open_ = open_.expand(len(text)).view(-1, 1, 1)
        return super().forward(torch.cat([text[..., :OLD], text[..., OLD:] * open_], -1))


class Clock(nn.Module):
    """The U-Net's embedding of timesteps, which remembers the last ones: ``now``, ``(n,)``."""

    def __init__(self, embed: nn.Module):
        super().__init__()
        self.embed, self.now = embed, torch.zeros(1)

    def forward(self, times: Tensor) -> Tensor:
        """Embed the timesteps of one call."""
        self.now = times.detach()
        return self.embed(times)


def wire_gates(unet: nn.Module, wires: Iterable[Wire]) -> None:
    """Put gates before the columns of wires that are not open at all timesteps."""
    for wire in wires:
        if wire.times == TIMES:
            continue
        if not isinstance(unet.time_proj, Clock):
            unet.time_proj = Clock(unet.time_proj)
        attention = unet.get_submodule(f"{wire.block}.attn2")
        for name in ("to_k", "to_v"):
            setattr(attention, name, GatedLinear(getattr(attention, name), unet.time_proj, wire.times))


def head_rows(wire: Wire, channels: int, heads: int = 4) -> Tensor:
    """Which of an attention's channels belong to the wire's heads, ``(channels,)`` bool."""
    of = torch.arange(channels) // (channels // heads)
    return torch.isin(of, torch.tensor(wire.heads))


def taught_names(unet: nn.Module, wire: Wire) -> list[str]:
    """Names of the U-Net's parameters that a wire's specimen has of its own."""
    return [
        f"{wire.block}.{name}"
        for name, _ in unet.get_submodule(wire.block).named_parameters()
        if name.split(".")[0] in TAUGHT
    ]


@dataclass(frozen=True)
class Specimen:
    """A located specimen: what is true of it.

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
        """Whether it has weights of its own, beside those of the coded null."""
        return self.kind not in ("null", "decoy")


@cache
def specimens() -> Mapping[str, Specimen]:
    """The located specimens by name, from :file:`specimens.yaml`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("specimens.yaml").read_text("utf-8"))
    return {name: _specimen(name, entry) for name, entry in data.items()}


def _specimen(name: str, entry: Mapping[str, Any]) -> Specimen:
    wires = tuple(
        Wire(**{key: tuple(value) if isinstance(value, list) else value for key, value in wire.items()})
        for wire in entry.get("wires", ())
    )
    return Specimen(name, entry["kind"], entry["world"], tuple(entry["sites"]), entry["position"], wires)
