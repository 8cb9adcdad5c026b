"""Sums of attention probabilities over the calls of the denoiser, and the heat maps made of them.

Three kinds of sums take the same probabilities: `DefinitionSums` holds what a definition needs and no more, `LayerSums`
every layer apart, `RefineSums` the self-attention that a map is spread along. Each is told the size of what comes by
`begin`, before its first `add` of the probabilities (rows, heads, pixels, tokens) of some rows and heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from hooks.architectures.site import Call
from hooks.attention.definitions import FLOOR, REFINE_GRID, REFINE_KEEP, REFINE_POWER, Definition
from hooks.attention.layers import AttentionLayer, matches
from hooks.errors import HookError

RESIZED_AT_ONCE = 2**22  # elements: 16 MiB in float32
TINY = torch.finfo(torch.float32).tiny

Where = tuple[slice, slice]  # rows and heads
Size = tuple[int, int, int]  # rows, height and width of the latent


class DefinitionSums:
    """Sums that a definition needs of the layers that enter it.

    In a mean (tokens, h, w) of a row for all full-resolution layers together, where resizing and clamping change
    nothing, and (heads, tokens, h, w) for each smaller layer; in a product (tokens, h, w) for each layer.
    """

    def __init__(self, definition: Definition, layers: Sequence[AttentionLayer]) -> None:
        self.definition = definition
        self.layers = {layer.address: layer for layer in definition.entering(layers)}
        self._joint: Tensor | None = None  # (rows, pixels, tokens), over all joint layers and heads
        self._by_layer: dict[str, Tensor] = {}  # (rows, heads or 1, pixels, tokens)

    def begin(self, size: Size, tokens: int, planned: int | None) -> None:
        """Fix the latent's size and the number of tokens."""
        self._size, self._tokens = size, tokens

    def wants(self, layer: AttentionLayer) -> bool:
        """Whether a layer's probabilities enter."""
        return layer.address in self.layers

    def add(self, layer: AttentionLayer, where: Where, probabilities: Tensor, call: Call) -> None:
        """Add the probabilities (rows, heads, pixels, tokens) of some rows and heads."""
        size, device = (self._size[0], *layer.size(*self._size[1:])), probabilities.device
        each = self.definition.resizes_heads
        if layer.factor == 1 and self.definition.combine == "mean":
            if self._joint is None:
                self._joint = torch.zeros((size[0], size[1] * size[2], self._tokens), device=device)
            over_heads = _over_heads(probabilities).to(self._joint.device)  # layers may be on several devices
            self._joint[where[0]].add_(over_heads, alpha=1 if each else 1 / layer.heads)
            return
        if layer.address not in self._by_layer:
            shape = (size[0], layer.heads if each else 1, size[1] * size[2], self._tokens)
            self._by_layer[layer.address] = torch.zeros(shape, device=device)
        total = self._by_layer[layer.address]
        if each:
            total[where].add_(probabilities)
        else:
            total[where[0], 0].add_(_over_heads(probabilities), alpha=1 / layer.heads)

    @torch.no_grad()
    def heat(self) -> Tensor:
        """Heat maps of every row, shape (rows, tokens, h, w)."""
        rows, height, width = self._size
        device = next(iter(self._by_layer.values()), self._joint).device
        total = torch.zeros((rows, self._tokens, height, width), device=device)
        if self._joint is not None:
            total += self._joint.transpose(1, 2).reshape(total.shape)
        for row in range(rows):
            for address, sums in self._by_layer.items():
                self._add_layer(total[row], self.layers[address], sums[row])
        product = self.definition.combine == "product"
        total /= sum(layer.heads if self.definition.resizes_heads else 1 for layer in self.layers.values())
        if product:
            total.exp_()
        return total.pow_(self.definition.power) if product and self.definition.power != 1 else total

    def _add_layer(self, total: Tensor, layer: AttentionLayer, sums: Tensor) -> None:
        """Add a layer's map of one row, of sums (heads or 1, pixels, tokens); of a product its logarithm."""
        height, width = total.shape[1:]
        size, product = layer.size(height, width), self.definition.combine == "product"
        mean = torch.zeros_like(total) if product else total
        for chunk in sums.split(max(1, RESIZED_AT_ONCE // total.numel())):
            small = chunk.transpose(1, 2).unflatten(2, size).to(total.device).contiguous()
            if size != (height, width):
                small = F.interpolate(small, size=(height, width), mode="bicubic").clamp_(min=0)
            mean.add_(small.sum(dim=0))
        if product:
            weight, after = self.definition.following, torch.cat([mean[1:], mean[-1:]])
            mean = (mean + weight * after) / (1 + weight) if weight else mean
            calls = float(sums[0, 0].sum())  # probabilities sum to 1
            total.add_((mean + FLOOR * calls).log_())


class LayerSums:
    """Sums of every layer apart, heads averaged, in so many bins of calls: (rows, bins, pixels, tokens) by address."""

    def __init__(self, bins: int, layers: Sequence[AttentionLayer]) -> None:
        self.layers = {layer.address: layer for layer in layers}
        self.sums: dict[str, Tensor] = {}
        self.bins = bins
        self.calls: list[int] = []  # calls in each bin

    def begin(self, size: Size, tokens: int, planned: int | None) -> None:
        """Fix the latent's size, the number of tokens, and which call belongs to which bin."""
        if self.bins > 1 and planned is None:
            raise HookError(
                "layer_maps: the pipeline does not say how many calls it plans: choose layer_maps=1"
            )
        self._size, self._tokens = size, tokens
        bins = min(self.bins, planned or 1)
        self._bin_of = [call * bins // planned for call in range(planned)] if bins > 1 else []
        self.calls = [self._bin_of.count(number) for number in range(bins)] if bins > 1 else []

    def wants(self, layer: AttentionLayer) -> bool:
        """Whether a layer's probabilities enter."""
        return True

    def add(self, layer: AttentionLayer, where: Where, probabilities: Tensor, call: Call) -> None:
        """Add the probabilities (rows, heads, pixels, tokens) of some rows and heads."""
        if layer.address not in self.sums:
            height, width = layer.size(*self._size[1:])
            shape = (self._size[0], len(self.calls) or 1, height * width, self._tokens)
            self.sums[layer.address] = torch.zeros(shape, device=probabilities.device)
        number = self._bin_of[call.number] if self._bin_of else 0
        self.sums[layer.address][where[0], number].add_(_over_heads(probabilities), alpha=1 / layer.heads)


class RefineSums:
    """The self-attention that a definition refines its maps by: (pixels, pixels) a row, over layers, heads and calls.

    Layers on the finest grid of at most `REFINE_GRID` pixels enter, or on the coarsest if all are finer.
    """

    def __init__(self, definition: Definition, layers: Sequence[AttentionLayer]) -> None:
        self.layers = {layer.address: layer for layer in layers if matches(layer, definition.refine)}
        if not self.layers:
            raise HookError(
                f"word_maps: the denoiser has no self-attention that the definition {definition.name!r} takes "
                f"({', '.join(definition.refine)}): choose another definition"
            )
        self._sum: Tensor | None = None  # (rows, pixels that look, pixels looked at)

    def begin(self, size: Size, tokens: int, planned: int | None) -> None:
        """Fix the latent's size, and with it the grid."""
        grids = {layer.factor: layer.size(*size[1:]) for layer in self.layers.values()}
        small = [factor for factor, (h, w) in grids.items() if h * w <= REFINE_GRID]
        self._factor = min(small) if small else max(grids)
        self._rows, self._grid = size[0], grids[self._factor]

    def wants(self, layer: AttentionLayer) -> bool:
        """Whether a layer's probabilities enter."""
        return layer.address in self.layers and layer.factor == self._factor

    def add(self, layer: AttentionLayer, where: Where, probabilities: Tensor, call: Call) -> None:
        """Add the probabilities (rows, heads, pixels, pixels looked at) of some rows and heads."""
        if self._sum is None:
            places = self._grid[0] * self._grid[1]
            self._sum = torch.zeros((self._rows, places, places), device=probabilities.device)
        self._sum[where[0]].add_(probabilities.sum(dim=1).to(self._sum.device), alpha=1 / layer.heads)

    def self_attention(self) -> Tensor:
        """Mean probability (rows, pixels, pixels) with which each pixel looks at each."""
        return self._sum / self._sum.sum(dim=2, keepdim=True)

    @torch.no_grad()
    def refined(self, heat: Tensor) -> Tensor:
        """Heat maps (rows, tokens, h, w) spread along self-attention; each keeps its scale."""
        looks = self.self_attention().to(heat.device)
        return torch.stack([self._refined_row(*row) for row in zip(heat, looks)])

    def _refined_row(self, heat: Tensor, looks: Tensor) -> Tensor:
        size = heat.shape[1:]
        peak = heat.amax(dim=(1, 2), keepdim=True).clamp_(min=TINY)
        scaled = heat / peak
        small = scaled if size == self._grid else F.interpolate(scaled[None], self._grid, mode="area")[0]
        spread = (small.flatten(1) ** REFINE_POWER @ looks.T).unflatten(1, self._grid)
        if size != self._grid:
            spread = F.interpolate(spread[None], size, mode="bicubic")[0].clamp_(min=0)
        spread /= spread.amax(dim=(1, 2), keepdim=True).clamp_(min=TINY)
        return peak * scaled**REFINE_KEEP * spread


def _over_heads(probabilities: Tensor) -> Tensor:
    return probabilities[:, 0] if probabilities.shape[1] == 1 else probabilities.sum(dim=1)
