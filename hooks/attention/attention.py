"""Attention probabilities from the outputs of an attention's projections, summed while the pipeline draws.

Queries and keys are read by forward hooks on `to_q` and `to_k` (or the fused `to_kv`, `to_qkv`), beside
whatever attention processor the pipeline runs; the softmax is taken anew in float32 whatever the model's
dtype, of the prompts' rows alone, a few rows or heads at a time.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.site import Call
from hooks.attention.definitions import Definition
from hooks.attention.layers import AttentionLayer, attention_layers
from hooks.attention.sums import DefinitionSums, LayerSums, RefineSums, Where
from hooks.errors import HookError

CHUNK_ON_CPU = 2**17  # probabilities worked on at once, if a head has no more: 512 KiB in float32, twice
CHUNK = 2**24  # on any other device: 64 MiB, twice


class AttentionSums:
    """Sums of the probabilities of the denoiser's cross- or self-attentions over the calls of one block.

    `call` gives the call under way, or None; `defined` is what a definition sums (nothing, where it is None), and
    `by_layer` every layer apart, in so many bins of calls (0: not). Refuses a denoiser without such a layer, or whose
    attention is not a plain softmax.
    """

    columns: tuple[tuple[int, ...], ...] | None = None

    def __init__(
        self,
        pipe: Any,
        call: Callable[[], Call | None],
        definition: Definition,
        bins: int = 0,
        kind: str = "cross",
    ) -> None:
        self._call, self._kind = call, kind
        layers = self._layers(pipe, kind)
        self.definition = definition
        self.defined = (DefinitionSums if kind == "cross" else RefineSums)(definition, layers)
        self.by_layer = LayerSums(bins, layers) if bins else None
        self._sums = [sums for sums in (self.defined, self.by_layer) if sums is not None]
        self.layers = layers if bins else list(self.defined.layers.values())
        self.planned: int | None = None
        self._queries: dict[str, Tensor] = {}
        self._seen = dict.fromkeys((layer.address for layer in self.layers), 0)
        self.latent: tuple[int, int, int] | None = None  # rows, height, width
        self.tokens: int | None = None

    def _layers(self, pipe: Any, kind: str) -> list[AttentionLayer]:
        return attention_layers(pipe, kind)

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Hook the projections of every layer; closing the stack takes the hooks off."""
        for layer in self.layers:
            fused = "to_kv" if self._kind == "cross" else "to_qkv"
            for name in ("to_q", "to_k", fused):
                module = getattr(layer.module, name, None)
                if module is not None:
                    stack.callback(module.register_forward_hook(self._hook(layer, name)).remove)

    def _hook(self, layer: AttentionLayer, name: str) -> Callable[..., None]:
        @torch.no_grad()
        def hook(module: Any, args: Any, output: Tensor) -> None:
            call = self._call()
            if call is None:
                return
            if name == "to_q":
                self._queries[layer.address] = output
            elif name == "to_qkv":
                query, key, _ = output.chunk(3, dim=-1)
                self._pair(layer, query, key, call)
            else:
                query = self._queries.pop(layer.address, None)
                key = output if name == "to_k" else output.chunk(2, dim=-1)[0]
                if query is not None:
                    self._pair(layer, query, key, call)

        return hook

    def _pair(self, layer: AttentionLayer, query: Tensor, key: Tensor, call: Call) -> None:
        batch = call.batch
        takers = self._takers(layer, call, key.shape[1])
        if not takers:
            return
        query = batch.conditional(query, layer.address)
        key = batch.conditional(key, layer.address)
        height, width = layer.size(batch.height, batch.width)
        if query.shape[1] != height * width:
            raise HookError(
                f"{layer.address}: expected {height * width} pixels, 1/{layer.factor} of the latent's "
                f"{batch.height}x{batch.width}, but got {query.shape[1]}"
            )
        for where, probabilities in self._probabilities(query, key, layer.heads, layer.module.scale):
            for sums in takers:
                sums.add(layer, where, probabilities, call)

    def _takers(self, layer: AttentionLayer, call: Call, tokens: int) -> list[Any]:
        """The sums that take a layer's run at this call, which is counted."""
        size = (call.batch.rows, *call.batch.grid)
        if self.latent is None:
            self.latent, self.tokens, self.planned = size, tokens, call.planned
            for sums in self._sums:
                sums.begin(size, tokens, call.planned)
        elif self.latent != size:
            raise HookError(f"attention: expected latents of one size, {self.latent}, but got {size}")
        elif self._kind == "cross" and tokens != self.tokens:
            raise HookError(f"{layer.address}: expected {self.tokens} tokens, but got {tokens}")
        self._seen[layer.address] += 1
        return [sums for sums in self._sums if sums.wants(layer)]

    def require_complete(self, calls: int) -> None:
        """Raise a HookError that names the first layer which was not read once in each call."""
        if self.by_layer is not None and len(self.by_layer.calls) > 1 and calls != self.planned:
            raise HookError(
                f"layer_maps: expected the {self.planned} calls of the denoiser that were planned, since they are kept "
                f"in bins, but got {calls}: let the pipeline end, or choose layer_maps=1"
            )
        for layer in self.layers:
            if self._seen[layer.address] != calls:
                raise HookError(
                    f"{layer.address}: expected one run in each of {calls} calls, but it ran "
                    f"{self._seen[layer.address]} times: turn off what skips or repeats layers"
                )

    def _probabilities(
        self, query: Tensor, key: Tensor, heads: int, scale: float
    ) -> Iterator[tuple[Where, Tensor]]:
        """Probabilities (rows, heads, pixels, tokens) of some rows and heads at a time."""
        rows, pixels, _ = query.shape
        tokens = key.shape[1]
        limit = CHUNK_ON_CPU if query.device.type == "cpu" else CHUNK
        query = query.view(rows, pixels, heads, -1).transpose(1, 2)  # (rows, heads, pixels, width)
        key = key.view(rows, tokens, heads, -1).permute(0, 2, 3, 1)  # (rows, heads, width, tokens)
        steps = [max(1, limit // (size * pixels * tokens)) for size in (heads, 1)]
        for row, head in itertools.product(range(0, rows, steps[0]), range(0, heads, steps[1])):
            where = (slice(row, row + steps[0]), slice(head, head + steps[1]))
            left, right = (one[where].flatten(0, 1).float() for one in (query, key))
            scores = torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=scale)
            yield where, scores.softmax(dim=-1).unflatten(0, query[where].shape[:2])
