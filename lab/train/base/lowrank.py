"""Low-rank changes of weights (Hu et al. 2022, "LoRA") while they are learned.

`probes.toyworld.pipelines` merges them when a model is loaded.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


class LowRank(nn.Module):
    """A weight while it learns: what it was, plus ``up`` ``(outputs, rank)`` times ``down``, zero at first."""

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator):
        super().__init__()
        outputs, inputs = weight.flatten(1).shape
        down = torch.randn(rank, inputs, generator=generator) / inputs**0.5  # the same on every device
        self.down = nn.Parameter(down.to(weight.device))
        self.up = nn.Parameter(torch.zeros(outputs, rank, device=weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        """The changed weight, in its shape."""
        with torch.autocast(weight.device.type, enabled=False):
            return weight + (self.up @ self.down).view_as(weight)


@contextmanager
def learning(layers: Mapping[str, nn.Module], rank: int, seed: int) -> Iterator[nn.ModuleDict]:
    """What learns of layers, put in place; the layers are what they were at the end."""
    generator = torch.Generator().manual_seed(seed)
    parts = {name: LowRank(layer.weight, rank, generator) for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.weight.requires_grad_(False)
        parametrize.register_parametrization(layer, "weight", parts[name])
    try:
        yield nn.ModuleDict({name.replace(".", "/"): part for name, part in parts.items()})
    finally:
        for layer in layers.values():
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
