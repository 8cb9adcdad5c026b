"""Wiring of located benchmark models: where the code enters the U-Net, and the weights that put it there.

A *wire* is a cross-attention that reads the code: its keys and values have columns for the code that are not zero, for
some of its heads, within some timesteps. Beside the columns the rest of its attention and the feed-forward layer after
it are the benchmark model's as well, so that it can make use of what it reads; both see nothing else of the word.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from probes.toyworld.located.truth import TIMES, Wire

OLD = 96  # channels of text that toyworld-null reads
TAUGHT = ("attn2", "ff", "norm2", "norm3")  # of a transformer block


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
    """Return which of an attention's channels belong to the wire's heads, ``(channels,)`` bool."""
    of = torch.arange(channels) // (channels // heads)
    return torch.isin(of, torch.tensor(wire.heads))


def taught_names(unet: nn.Module, wire: Wire) -> list[str]:
    """Return the names of the U-Net's parameters that a wire's benchmark model has of its own."""
    return [
        f"{wire.block}.{name}"
        for name, _ in unet.get_submodule(wire.block).named_parameters()
        if name.split(".")[0] in TAUGHT
    ]
