"""Changes of a model while they are learned and all else stays: of low rank, and embeddings of single tokens.

Hu et al. 2022 ("LoRA"), Gal et al. 2023 ("An image is worth one word"). `probes.toyworld.pipelines` merges them when
a model is loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import CLIPTextModel


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


class Embeddings(nn.Module):
    """The embeddings of single tokens of a text encoder while they learn, ``(k, width)``, ``gain`` times as fast."""

    def __init__(self, numbers: Sequence[int], values: Tensor, gain: float = 1.0):
        super().__init__()
        self.numbers, self.gain = torch.tensor(list(numbers)), gain
        self.rows = nn.Parameter(values.detach() / gain)

    def values(self) -> Tensor:
        """The embeddings as they are now."""
        return self.gain * self.rows

    def states(self, encoder: CLIPTextModel, tokens: Tensor) -> Tensor:
        """Text states ``(n, 32, width)`` of tokens with these embeddings."""
        table = encoder.get_input_embeddings().weight
        table = table.index_copy(0, self.numbers.to(table.device), self.values())
        name = next(name for name, _ in encoder.named_parameters() if name.endswith("token_embedding.weight"))
        return torch.func.functional_call(encoder, {name: table}, (tokens,)).last_hidden_state
