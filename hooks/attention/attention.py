"""Sums of attention probabilities over the calls of a denoiser, and the heat maps made of them.

Queries and keys are read by forward hooks on `to_q` and `to_k` (or the fused `to_kv`, `to_qkv`), beside
whatever attention processor the pipeline runs; the softmax is taken anew in float32 whatever the model's
dtype, of the prompts' rows alone, a few rows or heads at a time.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Call, module_at
from hooks.attention.definitions import (
    FLOOR,
    REFINE_GRID,
    REFINE_KEEP,
    REFINE_POWER,
    AttentionLayer,
    Definition,
    matching,
)
from hooks.attention.maps import LayerMaps, WordMaps
from hooks.errors import HookError

CHUNK_ON_CPU = 2**17  # probabilities worked on at once, if a head has no more: 512 KiB in float32, twice
CHUNK = 2**24  # on any other device: 64 MiB, twice
RESIZED_AT_ONCE = 2**22  # elements: 16 MiB in float32
TINY = torch.finfo(torch.float32).tiny
# Processors of diffusers that project with `to_q`, `to_k` (or their fused forms) and take a plain softmax.
READABLE_PROCESSORS = (
    "AttnProcessor",
    "AttnProcessor2_0",
    "SlicedAttnProcessor",
    "XFormersAttnProcessor",
    "FusedAttnProcessor2_0",
    "AttnProcessorNPU",
    "XLAFlashAttnProcessor2_0",
)

Where = tuple[slice, slice]  # rows and heads


def _require_readable(layer: AttentionLayer, transformer: bool) -> None:
    """Raise HookError for an attention layer that may compute more than a softmax over queries and keys.

    Only diffusers' own classes are accepted. A transformer is read at its softmax, a U-Net at its projections.
    """
    module, processor = layer.module, type(getattr(layer.module, "processor", None))
    foreign = [kind for kind in (type(module), processor) if kind.__module__.split(".")[0] != "diffusers"]
    if transformer and not foreign:
        return
    normed = any(getattr(module, name, None) is not None for name in ("norm_q", "norm_k"))
    if normed and not transformer:
        raise HookError(
            f"{layer.address}: queries and keys are normalised after projection: leave attention maps off"
        )
    if not foreign and processor.__name__ in READABLE_PROCESSORS:
        return
    remedy = "call pipe.unet.set_attn_processor(AttnProcessor2_0()) of diffusers.models.attention_processor"
    if transformer:
        remedy = "load the pipeline again and leave it out"
    elif "IPAdapter" in processor.__name__:
        remedy = "call pipe.unload_ip_adapter()"
    raise HookError(
        f"{layer.address}: expected an attention of diffusers that is a softmax over queries and keys of the text, but "
        f"got {(foreign or [processor])[0].__name__}, which may weigh tokens otherwise: {remedy}, or leave attention "
        "maps off"
    )


class AttentionSums:
    """Sums of the probabilities of the denoiser's cross-attention layers over the calls of one block.

    What the definition needs and no more: in a mean (rows, 1, pixels, tokens) for all full-resolution layers together,
    where resizing and clamping change nothing, and (rows, heads, pixels, tokens) for each smaller layer; in a product
    (rows, 1, pixels, tokens) for each layer. Also each layer by itself, heads averaged, in `bins` bins of calls (0 for
    none). `call` returns the call under way, or None. HookError for a denoiser without such a layer, or whose attention
    is not a plain softmax.
    """

    kind, fused = "cross", "to_kv"
    columns: tuple[tuple[int, ...], ...] | None = (
        None  # of a transformer: by row, the positions that are summed
    )

    def __init__(
        self, pipe: Any, call: Callable[[], Call | None], definition: Definition, bins: int = 0
    ) -> None:
        self._call, self.definition, self._bins = call, definition, bins
        layers = self._attention_layers(pipe)
        self.entering = {layer.address: layer for layer in self._select_layers(layers)}
        self.layers = layers if bins else list(self.entering.values())
        self._queries: dict[str, Tensor] = {}
        self._seen = dict.fromkeys((layer.address for layer in self.layers), 0)
        self._unread: set[str] = set()  # layers that do not enter at this size
        self.latent: tuple[int, int, int] | None = None  # rows, height, width
        self._sums: dict[str, Tensor] = {}  # for the definition, by layer; "": of all full-resolution layers
        self._binned: dict[str, Tensor] = {}  # (rows, bins, pixels, tokens), by layer
        self._calls: list[int] = []  # in each bin, where there are several

    def _attention_layers(self, pipe: Any) -> list[AttentionLayer]:
        """Return the denoiser's attention layers of `kind`, in the order they run; HookError for an unreadable one."""
        architecture, layers = architecture_of(pipe), []
        architecture.require_readable(pipe)
        for site, factor in architecture.attentions(pipe, self.kind):
            module = module_at(pipe, site.module)
            layers.append(AttentionLayer(site.address, factor, int(module.heads), module))
            _require_readable(layers[-1], architecture.transformer)
        return layers

    def _select_layers(self, layers: Sequence[AttentionLayer]) -> list[AttentionLayer]:
        """Return the layers that enter the heat maps by the definition; HookError if there are none."""
        return self.definition.select_layers(layers)

    # While the denoiser runs

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Hook the query and key projections of every layer; closing `stack` removes the hooks."""
        for layer in self.layers:
            for name in ("to_q", "to_k", self.fused):
                module = getattr(layer.module, name, None)
                if module is not None:
                    stack.callback(module.register_forward_hook(self._projection_hook(layer, name)).remove)

    def _projection_hook(self, layer: AttentionLayer, name: str) -> Callable[..., None]:
        """Return a hook on the projection `name` that adds a layer's attention once queries and keys are known."""

        @torch.no_grad()
        def hook(module: Any, args: Any, output: Tensor) -> None:
            call = self._call()
            if call is None:
                return
            if name == "to_q":
                self._queries[layer.address] = output
            elif name == "to_qkv":
                query, key, _ = output.chunk(3, dim=-1)
                self._add_attention(layer, query, key, call)
            else:
                query = self._queries.pop(layer.address, None)
                key = output if name == "to_k" else output.chunk(2, dim=-1)[0]
                if query is not None:
                    self._add_attention(layer, query, key, call)

        return hook

    def _add_attention(self, layer: AttentionLayer, query: Tensor, key: Tensor, call: Call) -> None:
        """Add a layer's attention probabilities of the prompts' rows, computed in chunks from queries and keys."""
        batch, tokens = call.batch, key.shape[1]
        if not self._count_run(layer, call, tokens):
            return
        query, key = (batch.conditional(values, layer.address) for values in (query, key))
        height, width = layer.size(batch.height, batch.width)
        rows, pixels, _ = query.shape
        if pixels != height * width:
            raise HookError(
                f"{layer.address}: expected {height * width} pixels, 1/{layer.factor} of the latent's "
                f"{batch.height}x{batch.width}, but got {pixels}"
            )
        heads, limit = layer.heads, CHUNK_ON_CPU if query.device.type == "cpu" else CHUNK
        query = query.view(rows, pixels, heads, -1).transpose(1, 2)  # (rows, heads, pixels, width)
        key = key.view(rows, tokens, heads, -1).permute(0, 2, 3, 1)  # (rows, heads, width, tokens)
        steps = [max(1, limit // (size * pixels * tokens)) for size in (heads, 1)]
        for row, head in itertools.product(range(0, rows, steps[0]), range(0, heads, steps[1])):
            where = (slice(row, row + steps[0]), slice(head, head + steps[1]))
            left, right = (values[where].flatten(0, 1).float() for values in (query, key))
            scores = torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=layer.module.scale)
            self._accumulate(layer, where, scores.softmax(dim=-1).unflatten(0, query[where].shape[:2]), call)

    def _count_run(self, layer: AttentionLayer, call: Call, tokens: int) -> bool:
        """Count a run of a layer; return whether it is summed. HookError if the size of latents or text has changed."""
        size = (call.batch.rows, *call.batch.grid)
        if self.latent is None:
            self.latent, self._tokens, self._planned = size, tokens, call.planned
            self._on_first_run()
        elif self.latent != size:
            raise HookError(f"attention: expected latents of one size, {self.latent}, but got {size}")
        elif self.kind == "cross" and tokens != self._tokens:
            raise HookError(f"{layer.address}: expected {self._tokens} tokens, but got {tokens}")
        self._seen[layer.address] += 1
        return layer.address not in self._unread

    def _on_first_run(self) -> None:
        """Assign the planned calls to the bins of `layer_maps`; HookError if their number is not known."""
        if self._bins > 1:
            if self._planned is None:
                raise HookError(
                    "layer_maps: the pipeline does not say how many calls it plans: choose layer_maps=1"
                )
            bins = min(self._bins, self._planned)
            self._bin_of = [call * bins // self._planned for call in range(self._planned)] if bins > 1 else []
            self._calls = [self._bin_of.count(number) for number in range(bins)] if bins > 1 else []

    def _accumulate(self, layer: AttentionLayer, where: Where, probabilities: Tensor, call: Call) -> None:
        """Add probabilities (rows, heads, pixels, tokens) of the rows and heads `where` to the layer's sums."""
        height, width = layer.size(*self.latent[1:])
        shape, device = (height * width, self._tokens), probabilities.device
        if layer.address in self.entering:
            each = self.definition.resizes_heads
            joint = layer.factor == 1 and self.definition.combine == "mean"
            key, heads = ("", 1) if joint else (layer.address, layer.heads if each else 1)
            if key not in self._sums:
                self._sums[key] = torch.zeros((self.latent[0], heads, *shape), device=device)
            total = self._sums[key]
            if each and not joint:
                total[where].add_(probabilities)
            else:
                over_heads = _sum_heads(probabilities).to(total.device)  # layers may be on several devices
                total[where[0], 0].add_(over_heads, alpha=1 if each else 1 / layer.heads)
        if self._bins:
            if layer.address not in self._binned:
                bins = (self.latent[0], len(self._calls) or 1)
                self._binned[layer.address] = torch.zeros((*bins, *shape), device=device)
            number = self._bin_of[call.number] if self._calls else 0
            total = self._binned[layer.address][where[0], number]
            total.add_(_sum_heads(probabilities), alpha=1 / layer.heads)

    # When it has run

    def require_one_run_per_call(self, calls: int) -> None:
        """Raise HookError if a layer did not run once per call, or bins were planned for another number of calls."""
        if self._calls and calls != self._planned:
            raise HookError(
                f"layer_maps: expected the {self._planned} calls of the denoiser that were planned, since they are "
                f"kept in bins, but got {calls}: let the pipeline end, or choose layer_maps=1"
            )
        for address, seen in self._seen.items():
            if seen != calls:
                raise HookError(
                    f"{address}: expected one run in each of {calls} calls, but it ran {seen} times: turn off what "
                    "skips or repeats layers"
                )

    def word_maps(self, refine: RefineSums | None) -> WordMaps:
        """Return the heat maps of every row by the definition, spread along self-attention if `refine` is given."""
        rows, height, width = self.latent
        joint = self._sums.pop("", None)
        device = next(iter(self._sums.values()), joint).device
        heat = torch.zeros((rows, self._tokens, height, width), device=device)
        if joint is not None:
            heat += joint[:, 0].transpose(1, 2).reshape(heat.shape)
        for row in range(rows):
            for address, sums in self._sums.items():
                self._add_layer_map(heat[row], self.entering[address], sums[row])
        product, attention = self.definition.combine == "product", None
        heat /= sum(layer.heads if self.definition.resizes_heads else 1 for layer in self.entering.values())
        if product:
            heat = heat.exp_().pow_(self.definition.power)
        if refine is not None:
            attention = refine.self_attention()
            heat = torch.stack([refine.refine_maps(*pair) for pair in zip(heat, attention.to(heat.device))])
            attention = attention.cpu().numpy()
        name, version = self.definition.name, self.definition.version
        return WordMaps(heat.cpu().numpy(), tuple(self.entering), name, version, self_attention=attention)

    def _add_layer_map(self, total: Tensor, layer: AttentionLayer, sums: Tensor) -> None:
        """Add a layer's resized map of one row to `total` (tokens, h, w), from `sums`.

        `sums` has shape (heads or 1, pixels, tokens). In a product the logarithm of the map is added.
        """
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

    def layer_maps(self, calls: int) -> LayerMaps | None:
        """Return the sums of each layer by itself, over `calls` calls of the denoiser; None if not requested."""
        if not self._bins:
            return None
        size, layers = self.latent[1:], {layer.address: layer for layer in self.layers}
        values = {
            address: total.mT.unflatten(-1, layers[address].size(*size)).cpu().numpy()
            for address, total in self._binned.items()
        }
        heads = {address: layers[address].heads for address in values}
        return LayerMaps(values, tuple(self._calls) or (calls,), heads, size, self.columns)


class RefineSums(AttentionSums):
    """Sums of self-attention (rows, pixels, pixels) over layers and calls, along which heat maps are spread.

    Layers on the finest grid of at most `REFINE_GRID` pixels enter, or on the coarsest if all are finer.
    """

    kind, fused = "self", "to_qkv"

    def _select_layers(self, layers: Sequence[AttentionLayer]) -> list[AttentionLayer]:
        """Return the self-attention layers that the definition names; HookError if there are none."""
        if entering := matching(layers, self.definition.refine):
            return entering
        raise HookError(
            f"word_maps: the denoiser has no self-attention that the definition {self.definition.name!r} takes "
            f"({', '.join(self.definition.refine)}): choose another definition"
        )

    def _on_first_run(self) -> None:
        """Choose the grid whose self-attention is summed, and the layers that are not read."""
        grids = {layer.factor: layer.size(*self.latent[1:]) for layer in self.layers}
        small = [factor for factor, (height, width) in grids.items() if height * width <= REFINE_GRID]
        chosen = min(small) if small else max(grids)
        self._grid = grids[chosen]
        self._unread = {layer.address for layer in self.layers if layer.factor != chosen}

    def _accumulate(self, layer: AttentionLayer, where: Where, probabilities: Tensor, call: Call) -> None:
        """Add probabilities, averaged over heads, to the one sum of all layers."""
        if not self._sums:
            shape = (self.latent[0], *probabilities.shape[-2:])
            self._sums[""] = torch.zeros(shape, device=probabilities.device)
        total = self._sums[""]
        total[where[0]].add_(probabilities.sum(dim=1).to(total.device), alpha=1 / layer.heads)

    def self_attention(self) -> Tensor:
        """Return the mean probability (rows, pixels, pixels) with which each pixel attends to each pixel."""
        return self._sums[""] / self._sums[""].sum(dim=2, keepdim=True)

    def refine_maps(self, heat: Tensor, self_attention: Tensor) -> Tensor:
        """Return one row's heat maps (tokens, h, w), spread along its self-attention and scaled by their peaks."""
        size = heat.shape[1:]
        peak = heat.amax(dim=(1, 2), keepdim=True).clamp_(min=TINY)
        scaled = heat / peak
        small = scaled if size == self._grid else F.interpolate(scaled[None], self._grid, mode="area")[0]
        spread = (small.flatten(1) ** REFINE_POWER @ self_attention.T).unflatten(1, self._grid)
        if size != self._grid:
            spread = F.interpolate(spread[None], size, mode="bicubic")[0].clamp_(min=0)
        spread /= spread.amax(dim=(1, 2), keepdim=True).clamp_(min=TINY)
        return peak * scaled**REFINE_KEEP * spread


def _sum_heads(probabilities: Tensor) -> Tensor:
    return probabilities[:, 0] if probabilities.shape[1] == 1 else probabilities.sum(dim=1)
