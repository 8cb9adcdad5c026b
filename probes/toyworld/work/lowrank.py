"""Low-rank changes of weights (Hu et al. 2022, "LoRA"), merged to the same bits on every machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

DOWN, UP = "down", "up"


class LowRank(nn.Module):
    """A weight while it learns: what it was, plus a product of two thin matrices, zero at first.

    Attributes
    ----------
    down : Tensor
        ``(rank, inputs)``.
    up : Tensor
        ``(outputs, rank)``.
    """

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator):
        super().__init__()
        outputs, inputs = weight.flatten(1).shape
        self.down = nn.Parameter(torch.randn(rank, inputs, generator=generator) / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, weight: Tensor) -> Tensor:
        """The changed weight, in its shape."""
        with torch.autocast(weight.device.type, enabled=False):
            return weight + (self.up @ self.down).view_as(weight)


def changed_layers(unet: nn.Module, encoder: nn.Module) -> dict[str, nn.Module]:
    """The layers that change, by name.

    All linear ones of the text encoder, and of the U-Net those of its transformer blocks and the convolutions of its
    residual blocks.
    """
    layers = {f"encoder.{name}": one for name, one in encoder.named_modules() if isinstance(one, nn.Linear)}
    for name, one in unet.named_modules():
        attends = isinstance(one, nn.Linear) and ".transformer_blocks." in name
        convolves = isinstance(one, nn.Conv2d) and ".resnets." in name
        if attends or convolves:
            layers[f"unet.{name}"] = one
    return layers


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


@torch.no_grad()
def merge(weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A weight and its change in one, float32, the same bits whatever multiplies the matrices.

    All three hold numbers of float16, multiples of 2**-24. So every product and every sum of them is a multiple of
    2**-48, and as long as none reaches 32, float64 holds it exactly, in whatever order it is taken; it is rounded once.

    Raises
    ------
    ValueError
        A sum could reach 32, or a number is none of float16.
    """
    if any(not torch.equal(value, value.half().to(value.dtype)) for value in (weight, up, down)):
        raise ValueError("expected weights and changes in float16, got others: nothing would be exact")
    bound = float((up.double().abs() @ down.double().abs()).max() + weight.abs().max())
    if not bound < 31:
        raise ValueError(f"expected sums below 32, got up to {bound:.3g}: they would not be exact")
    return (weight.double() + (up.double() @ down.double()).view(weight.shape)).float()
