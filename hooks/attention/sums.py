"""Sums of attention probabilities over the calls of the denoiser, and the heat maps made of them.

Two kinds of sums take the same probabilities. `DefinitionSums` holds what a definition needs and no more:
(tokens, h, w) of a row for all full-resolution layers together (there resizing and clamping change nothing),
and (heads, tokens, h, w) of a row for each smaller layer. `KeptSums` holds what a `MapChoice` asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hooks.attention.choice import MapChoice
from hooks.attention.definitions import FLOOR, Definition
from hooks.attention.layers import AttentionLayer

RESIZED_AT_ONCE = 2**22  # elements: 16 MiB in float32


class DefinitionSums:
    """Sums that a definition needs of the layers that enter it."""

    def __init__(self, definition: Definition, layers: Sequence[AttentionLayer]) -> None:
        self.definition = definition
        self.layers = {layer.address: layer for layer in definition.entering(layers)}
        self._joint: Tensor | None = None  # (rows, pixels, tokens), weighted, over all joint layers and heads
        self._by_layer: dict[str, Tensor] = {}  # (rows, heads or 1, pixels, tokens)

    def wants(self, layer: AttentionLayer, call: int, calls: int | None) -> bool:
        """Return whether a layer's probabilities of one of `calls` calls enter."""
        return layer.address in self.layers

    def _is_joint(self, layer: AttentionLayer) -> bool:
        return layer.factor == 1 and not self.definition.separate_layers

    def _separate_heads(self, layer: AttentionLayer) -> int:
        return 1 if self.definition.heads == "mean" or layer.factor == 1 else layer.heads

    def prepare(self, layer: AttentionLayer, rows: int, tokens: int, device: Any, calls: int | None) -> None:
        """Make room for what a layer adds, before its first probabilities."""
        height, width = self._size
        height, width = layer.size(height, width)
        if self._is_joint(layer):
            if self._joint is None:
                self._joint = torch.zeros((rows, height * width, tokens), dtype=torch.float32, device=device)
        elif layer.address not in self._by_layer:
            shape = (rows, self._separate_heads(layer), height * width, tokens)
            self._by_layer[layer.address] = torch.zeros(shape, dtype=torch.float32, device=device)

    def begin(self, height: int, width: int) -> None:
        """Fix the latent's size."""
        self._size = (height, width)

    def add(
        self,
        layer: AttentionLayer,
        where: tuple[slice, slice, slice],
        probabilities: Tensor,
        call: int,
        calls: int | None,
    ) -> None:
        """Add the probabilities (rows, heads, pixels, tokens) of some rows, heads and pixels."""
        rows, heads, pixels = where
        if self._is_joint(layer):
            weight = self.definition.weight(layer) / layer.heads
            over_heads = _over_heads(probabilities).to(self._joint.device)  # layers may be on several devices
            self._joint[rows, pixels].add_(over_heads, alpha=weight)
        elif self._separate_heads(layer) == 1:
            total = self._by_layer[layer.address]
            total[rows, 0, pixels].add_(_over_heads(probabilities), alpha=1 / layer.heads)
        else:
            self._by_layer[layer.address][rows, heads, pixels].add_(probabilities)

    def elements(self, rows: int, tokens: int, height: int, width: int) -> int:
        """Return how many numbers will be held."""
        shapes, joint = 0, 0
        for layer in self.layers.values():
            h, w = layer.size(height, width)
            if self._is_joint(layer):
                joint = h * w
            else:
                shapes += h * w * self._separate_heads(layer)
        return rows * tokens * (shapes + joint)

    @torch.no_grad()
    def heat(self) -> Tensor:
        """Heat maps of every row, shape (rows, tokens, h, w)."""
        some = next(iter(self._by_layer.values()), self._joint)
        rows, tokens = some.shape[0], some.shape[-1]
        total = torch.zeros((rows, tokens, *self._size), dtype=torch.float32, device=some.device)
        if self._joint is not None:
            total += self._joint.transpose(1, 2).reshape(total.shape)
        for row in range(rows):
            maps = ((self.layers[address], sums[row]) for address, sums in self._by_layer.items())
            add_layers(total[row], self.definition, maps)
        return combined(total, self.definition, list(self.layers.values()))


class KeptSums:
    """Probabilities that a choice keeps: for each layer (rows, bins, heads, pixels, tokens)."""

    def __init__(self, choice: MapChoice, layers: Sequence[AttentionLayer]) -> None:
        self.choice = choice
        self.layers = {layer.address: layer for layer in choice.chosen(layers)}
        self.sums: dict[str, Tensor] = {}
        self.calls: list[int] = []  # calls in each bin
        self._counted = -1
        self._positions: dict[Any, Tensor] = {}

    def begin(self, height: int, width: int) -> None:
        """Fix the latent's size."""
        self._size = (height, width)

    def wants(self, layer: AttentionLayer, call: int, calls: int | None) -> bool:
        """Return whether a layer's probabilities of one of `calls` calls enter."""
        return layer.address in self.layers

    def prepare(self, layer: AttentionLayer, rows: int, tokens: int, device: Any, calls: int | None) -> None:
        """Make room for what a layer adds, before its first probabilities."""
        if layer.address in self.sums:
            return
        height, width = layer.size(*self._size)
        choice = self.choice
        bins = choice.bins(calls) if choice.steps != "sum" else 1
        heads, kept = choice.heads_kept(layer.heads), choice.tokens_kept(tokens)
        shape = (rows, bins, heads, height * width, kept)
        self.sums[layer.address] = torch.zeros(shape, dtype=torch.float32, device=device)
        self.calls = self.calls or [0] * bins
        if choice.tokens is not None and device not in self._positions:
            self._positions[device] = torch.tensor(choice.tokens, device=device)

    def add(
        self,
        layer: AttentionLayer,
        where: tuple[slice, slice, slice],
        probabilities: Tensor,
        call: int,
        calls: int | None,
    ) -> None:
        """Add the probabilities (rows, heads, pixels, tokens) of some rows, heads and pixels."""
        rows, heads, pixels = where
        choice, total = self.choice, self.sums[layer.address]
        bin_ = choice.bin_of(call, calls) if choice.steps != "sum" else 0
        if call != self._counted:
            self.calls[bin_] += 1
            self._counted = call
        if choice.tokens is not None:
            probabilities = probabilities.index_select(-1, self._positions[probabilities.device])
        if choice.heads == "mean":
            total[rows, bin_, 0, pixels].add_(_over_heads(probabilities), alpha=1 / layer.heads)
        elif choice.heads == "each":
            total[rows, bin_, heads, pixels].add_(probabilities)
        else:
            for kept, head in enumerate(choice.heads):
                if heads.start <= head < heads.stop:
                    total[rows, bin_, kept, pixels].add_(probabilities[:, head - heads.start])

    def elements(self, rows: int, tokens: int | None, height: int, width: int, calls: int | None) -> int:
        """Return how many numbers will be held; for self-attention, `tokens` is None: as many as pixels."""
        total = 0
        for layer in self.layers.values():
            h, w = layer.size(height, width)
            kept = self.choice.tokens_kept(h * w if tokens is None else tokens)
            bins = self.choice.bins(calls) if self.choice.steps != "sum" else 1
            total += rows * bins * self.choice.heads_kept(layer.heads) * h * w * kept
        return total


def add_layers(total: Tensor, definition: Definition, maps: Iterable[tuple[AttentionLayer, Tensor]]) -> None:
    """Add each layer's weighted map of one row to a total (tokens, h, w), resized and clamped as defined.

    Maps have shape (heads, pixels, tokens), one head where heads were averaged. For a product, what is added is the
    weighted logarithm.
    """
    height, width = total.shape[1:]
    for layer, sums in maps:
        heads, size = sums.shape[0], layer.size(height, width)
        weight = definition.weight(layer) / heads
        at_once = max(1, RESIZED_AT_ONCE // total.numel())
        plain = not definition.separate_layers
        mean = total if plain else torch.zeros_like(total)
        for chunk in sums.split(at_once):
            small = chunk.transpose(1, 2).unflatten(2, size).to(total.device).contiguous()
            if size != (height, width):
                small = F.interpolate(small, size=(height, width), mode="bicubic").clamp_(min=0)
            mean.add_(small.sum(dim=0), alpha=weight)
        if plain:
            continue
        mean /= definition.weight(layer)
        if definition.following:
            mean = following_too(mean, definition.following)
        calls = float(sums[0, 0].sum())  # probabilities sum to 1
        total.add_((mean + FLOOR * calls).log_(), alpha=definition.weight(layer))


def combined(total: Tensor, definition: Definition, layers: Sequence[AttentionLayer]) -> Tensor:
    """Heat maps from what `add_layers` has added for all layers; the total is overwritten."""
    total /= sum(definition.weight(layer) for layer in layers)
    if definition.combine == "product":
        total.exp_()
    if definition.following and not definition.separate_layers:
        total = following_too(total, definition.following)
    return total if definition.power == 1 else total.pow_(definition.power)


def following_too(maps: Tensor, weight: float) -> Tensor:
    """Weighted mean of each token's map (..., tokens, h, w) and the next token's; the last stays as it is."""
    after = torch.cat([maps[..., 1:, :, :], maps[..., -1:, :, :]], dim=-3)
    return (maps + weight * after) / (1 + weight)


def _over_heads(probabilities: Tensor) -> Tensor:
    return probabilities[:, 0] if probabilities.shape[1] == 1 else probabilities.sum(dim=1)
