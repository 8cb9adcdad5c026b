"""Low-rank changes of weights (Hu et al. 2022, "LoRA"), merged to the same bits on every machine."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

DOWN, UP = "down", "up"


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


def delta_names(layers: Mapping[str, nn.Module]) -> list[str]:
    """The names of what is stored of a change: two matrices a layer."""
    return [f"{name}.{half}" for name in layers for half in (UP, DOWN)]


@torch.no_grad()
def merge_all(layers: Mapping[str, nn.Module], delta: Mapping[str, Tensor]) -> None:
    """Merge the matrices (``LAYER.up``, ``LAYER.down``) of a change into these layers."""
    for name, layer in layers.items():
        up, down = (delta[f"{name}.{half}"].float() for half in (UP, DOWN))
        layer.weight.copy_(merge(layer.weight, up, down))


@torch.no_grad()
def merge(weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A weight and its change in one, float32, the same bits whatever multiplies the matrices.

    All three hold numbers of float16, multiples of 2**-24. So every product and every sum of them is a multiple of
    2**-48, and as long as none reaches 32, float64 holds it exactly, in whatever order it is taken; it is rounded once.
    A `ValueError` where a sum could reach 32, or a number is none of float16.
    """
    if any(not torch.equal(value, value.half().to(value.dtype)) for value in (weight, up, down)):
        raise ValueError("expected weights and changes in float16, got others: nothing would be exact")
    bound = float((up.double().abs() @ down.double().abs()).max() + weight.abs().max())
    if not bound < 31:
        raise ValueError(f"expected sums below 32, got up to {bound:.3g}: they would not be exact")
    return (weight.double() + (up.double() @ down.double()).view(weight.shape)).float()
