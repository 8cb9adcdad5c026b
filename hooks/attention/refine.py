"""Maps of words spread along self-attention: what looks at one another belongs to one thing."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hooks.attention.definitions import REFINE_GRID, Definition
from hooks.attention.layers import AttentionLayer
from hooks.errors import HookError


class RefineSums:
    """The self-attention that a definition refines its maps by: (pixels, pixels) a row, over layers, heads and calls.

    Layers on the finest grid of at most `REFINE_GRID` pixels enter, or on the coarsest if all are finer.
    """

    def __init__(self, definition: Definition, layers: Sequence[AttentionLayer]) -> None:
        self.definition = definition
        self.layers = {
            layer.address: layer
            for layer in layers
            if any(fnmatch.fnmatchcase(layer.address, glob) for glob in definition.refine)
        }
        if not self.layers:
            raise HookError(
                f"word_maps: the denoiser has no self-attention that the definition {definition.name!r} takes "
                f"({', '.join(definition.refine)}): choose another definition"
            )
        self._sum: Tensor | None = None  # (rows, pixels that look, pixels looked at)

    def begin(self, height: int, width: int) -> None:
        """Fix the latent's size, and with it the grid."""
        self._factor, self._grid = self._finest(height, width)

    def _finest(self, height: int, width: int) -> tuple[int, tuple[int, int]]:
        grids = {layer.factor: layer.size(height, width) for layer in self.layers.values()}
        small = [factor for factor, (h, w) in grids.items() if h * w <= REFINE_GRID]
        factor = min(small) if small else max(grids)
        return factor, grids[factor]

    def wants(self, layer: AttentionLayer, call: int, calls: int | None) -> bool:
        """Return whether a layer's probabilities of one of `calls` calls enter."""
        return layer.address in self.layers and layer.factor == self._factor

    def prepare(self, layer: AttentionLayer, rows: int, tokens: int, device: Any, calls: int | None) -> None:
        """Make room for what a layer adds, before its first probabilities."""
        if self._sum is None:
            self._sum = torch.zeros((rows, tokens, tokens), dtype=torch.float32, device=device)

    def add(
        self,
        layer: AttentionLayer,
        where: tuple[slice, slice, slice],
        probabilities: Tensor,
        call: int,
        calls: int | None,
    ) -> None:
        """Add the probabilities (rows, heads, pixels, pixels looked at) of some rows, heads and pixels."""
        rows, _, pixels = where
        self._sum[rows, pixels].add_(probabilities.sum(dim=1).to(self._sum.device), alpha=1 / layer.heads)

    def elements(self, rows: int, tokens: int | None, height: int, width: int) -> int:
        """Return how many numbers will be held."""
        h, w = self._finest(height, width)[1]
        return rows * (h * w) ** 2

    @torch.no_grad()
    def refine(self, heat: Tensor) -> Tensor:
        """Heat maps (rows, tokens, h, w), refined; each keeps its scale."""
        return torch.stack([self._refine_row(row, looks) for row, looks in zip(heat, self._sum)])

    def _refine_row(self, heat: Tensor, looks: Tensor) -> Tensor:
        definition, size = self.definition, heat.shape[1:]
        looks = (looks / looks.sum(dim=1, keepdim=True)).to(heat.device)
        peak = heat.amax(dim=(1, 2), keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny)
        scaled = heat / peak
        small = scaled if size == self._grid else F.interpolate(scaled[None], self._grid, mode="area")[0]
        spread = (small.flatten(1) ** definition.refine_power @ looks.T).unflatten(1, self._grid)
        if size != self._grid:
            spread = F.interpolate(spread[None], size, mode="bicubic")[0].clamp_(min=0)
        spread /= spread.amax(dim=(1, 2), keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny)
        return peak * scaled**definition.refine_keep * spread
