"""Word maps: which parts of the latent each token's cross-attention looks at while the image is drawn.

DAAM, "What the DAAM: Interpreting Stable Diffusion Using Cross Attention" (Tang et al., ACL 2023, section
2.2), as its own code (daam 0.2.0) computes it: softmax probabilities of the conditional rows, summed over
the steps, every head's map resized bicubically to the latent and clamped at 0, then the mean over layers
and heads. The cross-attentions of the down and up blocks enter; layers at an eighth of the latent's
resolution do not, nor, as in the paper's sum, the mid block.

Deviations: probabilities are computed in float32 whatever the model's dtype; latents need not be square.

The queries and keys are the outputs of `to_q` and `to_k`, read by forward hooks beside whatever attention
processor the pipeline runs. Memory does not grow with the steps: (tokens, h, w) of a row for all
full-resolution layers together (there resizing and clamping change nothing), and (heads, tokens, h, w) of a
row for each smaller layer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hooks.errors import HookError
from hooks.sites import cross_attentions, module_at

DEFINITION = "daam"
VERSION = "1"
LEFT_OUT_FACTOR = 8
MAX_ELEMENTS = 2**27  # of the probabilities held at once: 512 MiB in float32


@dataclass(frozen=True)
class WordMaps:
    """Heat maps of every token of every row.

    Attributes
    ----------
    values : ndarray, shape (rows, n_tokens, h, w), float32
        Raw sums of probabilities, before any min-max; (h, w) is the latent's size. All positions of the
        prompt are there, start, end and padding included.
    layers : tuple of str
        Addresses of the cross-attentions that entered.
    definition, version : str
    """

    values: np.ndarray
    layers: tuple[str, ...]
    definition: str = DEFINITION
    version: str = VERSION

    def heat(self, row: int) -> np.ndarray:
        """Maps of one row of the batch, shape (n_tokens, h, w), float32, at least 0."""
        if not 0 <= row < len(self.values):
            raise HookError(f"row: expected one of the batch's {len(self.values)} rows, but got {row}")
        return self.values[row]


@dataclass(frozen=True)
class Batch:
    """The UNet call under way: conditional rows are the last `rows` of `rows * branches`."""

    rows: int
    branches: int
    height: int
    width: int

    def conditional(self, values: Tensor, address: str) -> Tensor:
        if values.shape[0] != self.rows * self.branches:
            raise HookError(
                f"{address}: expected {self.rows * self.branches} rows "
                f"({self.branches} x {self.rows} of the batch), but got {values.shape[0]}"
            )
        return values[-self.rows :] if self.branches > 1 else values


class AttentionSums:
    """Sums of cross-attention probabilities over the UNet calls of one block."""

    def __init__(self, pipe: Any, batch: Callable[[], Batch | None]) -> None:
        self._layers = [
            (address, module_at(pipe, path))
            for address, path in cross_attentions(pipe)
            if not address.startswith("unet.mid")
        ]
        self._batch = batch
        self._queries: dict[str, Tensor] = {}
        self._full: Tensor | None = None  # (rows, h * w, tokens), all full-resolution heads together
        self._small: dict[str, Tensor] = {}  # (rows, heads, h_l * w_l, tokens)
        self._heads: dict[str, int] = {}
        self._shapes: dict[str, tuple[int, int]] = {}
        self._latent: tuple[int, int, int] | None = None
        if not self._layers:
            raise HookError(
                "word_maps: the UNet's down and up blocks have no cross-attention: leave word_maps off"
            )
        for address, attention in self._layers:
            if getattr(attention, "fused_projections", False):
                raise HookError(
                    f"{address}: to_k is fused with to_v: call pipe.unfuse_qkv_projections() first"
                )
            if (
                getattr(attention, "norm_q", None) is not None
                or getattr(attention, "norm_k", None) is not None
            ):
                raise HookError(
                    f"{address}: queries and keys are normalised after projection: leave word_maps off"
                )

    def attach(self, stack: contextlib.ExitStack) -> None:
        for address, attention in self._layers:
            for module, hook in (
                (attention.to_q, self._on_query(address)),
                (attention.to_k, self._on_key(address, attention)),
            ):
                stack.callback(module.register_forward_hook(hook).remove)

    def _on_query(self, address: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, output: Tensor) -> None:
            if self._batch() is not None:
                self._queries[address] = output

        return hook

    def _on_key(self, address: str, attention: Any) -> Callable[..., None]:
        @torch.no_grad()
        def hook(module: Any, args: Any, output: Tensor) -> None:
            batch = self._batch()
            query = self._queries.pop(address, None)
            if batch is None or query is None:
                return
            size = (batch.rows, batch.height, batch.width)
            if self._latent not in (None, size):
                raise HookError(f"word_maps: expected latents of one size, {self._latent}, but got {size}")
            self._latent = size
            self._add(
                address, attention, batch.conditional(query, address), batch.conditional(output, address)
            )

        return hook

    def _add(self, address: str, attention: Any, query: Tensor, key: Tensor) -> None:
        rows, pixels, _ = query.shape
        factor, height, width = self._scale_of(address, pixels)
        if factor == LEFT_OUT_FACTOR:
            return
        heads, tokens = attention.heads, key.shape[1]
        self._heads[address] = heads
        self._shapes[address] = (height, width)
        total = self._full if factor == 1 else self._small.get(address)
        if total is None:
            shape = (rows, pixels, tokens) if factor == 1 else (rows, heads, pixels, tokens)
            total = torch.zeros(shape, dtype=torch.float32, device=query.device)
            if factor == 1:
                self._full = total
            else:
                self._small[address] = total
        per_chunk = max(1, MAX_ELEMENTS // (heads * pixels * tokens))
        for start in range(0, rows, per_chunk):
            part = slice(start, start + per_chunk)
            probabilities = cross_attention_probabilities(query[part], key[part], heads, attention.scale)
            total[part] += probabilities.sum(dim=1) if factor == 1 else probabilities

    def _scale_of(self, address: str, pixels: int) -> tuple[int, int, int]:
        """Downsampling factor and size of a layer that has so many pixels (each halving rounds up)."""
        _, height, width = self._latent
        factor = 1
        while height * width > pixels and height * width > 1:
            factor, height, width = 2 * factor, (height + 1) // 2, (width + 1) // 2
        if height * width != pixels:
            raise HookError(
                f"{address}: {pixels} pixels are no halving of the latent's size {self._latent[1:]}"
            )
        return factor, height, width

    @torch.no_grad()
    def finish(self) -> WordMaps | None:
        """Word maps of what was summed; None if the UNet was not called."""
        if self._latent is None:
            return None
        if not self._heads:
            raise HookError(
                f"word_maps: every cross-attention runs at 1/{LEFT_OUT_FACTOR} of the latent and is left out"
            )
        rows, height, width = self._latent
        some = self._full if self._full is not None else next(iter(self._small.values()))
        tokens = some.shape[-1]
        total = torch.zeros((rows, tokens, height, width), dtype=torch.float32, device=some.device)
        if self._full is not None:
            total += self._full.transpose(1, 2).reshape(total.shape)
        for address, sums in self._small.items():
            maps = sums.transpose(2, 3).unflatten(3, self._shapes[address])  # (rows, heads, tokens, h_l, w_l)
            for row in range(rows):
                resized = F.interpolate(maps[row].contiguous(), size=(height, width), mode="bicubic")
                total[row] += resized.clamp_(min=0).sum(dim=0).to(total.device)
        total /= sum(self._heads.values())
        return WordMaps(total.cpu().numpy(), tuple(self._heads))


def cross_attention_probabilities(query: Tensor, key: Tensor, heads: int, scale: float) -> Tensor:
    """Softmax over the tokens of scaled query-key products, in float32.

    Parameters
    ----------
    query : Tensor, shape (rows, pixels, heads * width)
    key : Tensor, shape (rows, tokens, heads * width)
    heads : int
    scale : float
        Usually 1 / sqrt(width).

    Returns
    -------
    Tensor, shape (rows, heads, pixels, tokens), float32; sums to 1 over the tokens

    Examples
    --------
    >>> import torch
    >>> query, key = torch.ones(1, 1, 2), torch.tensor([[[0.0, 0.0], [0.0, 1.0986123]]])
    >>> cross_attention_probabilities(query, key, heads=2, scale=1.0)[0, :, 0]
    tensor([[0.5000, 0.5000],
            [0.2500, 0.7500]])
    """
    query = query.unflatten(2, (heads, -1)).transpose(1, 2).float()
    key = key.unflatten(2, (heads, -1)).permute(0, 2, 3, 1).float()
    return (query @ key * scale).softmax(dim=-1)
