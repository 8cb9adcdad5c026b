"""Sums of attention probabilities over the calls of a denoiser, and the heat maps made of them.

Queries and keys are read by forward hooks on `to_q` and `to_k` (or the fused `to_kv`, `to_qkv`), beside
whatever attention processor the pipeline runs; the softmax is taken anew, of the prompts' rows alone.

On a CPU, and for each layer by itself, in float32 whatever the model's dtype, a few rows or heads at a time. On a GPU
layers of one shape wait until they have some 64 MiB of queries or the denoiser's call ends. One attention for all of
them, in the model's dtype and by any fused kernel, then has indicators of the tokens as values.
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
from hooks.architectures.site import Batch, Call, head_count, module_at
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
IN_CHUNKS = ("cpu",)  # devices whose softmax is taken in chunks
WAITING = 2**26  # bytes of queries that wait, with the rows of all branches of guidance
RESIZED_AT_ONCE = 2**24  # elements: 64 MiB in float32
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
# queries, heads and scale of layers that wait together
Alike = tuple[torch.Size, torch.dtype, torch.device, int, float]


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


def indicators(
    columns: Sequence[Sequence[int | slice]], keys: int, width: int, dtype: torch.dtype, device: torch.device
) -> Sequence[Tensor]:
    """Return values (rows, 1, keys, width), 1 where a row's column has its keys; several where columns are more.

    An attention of such values is the attention to each column, by any kernel that takes values as wide as keys.
    """
    room = -(-max(map(len, columns)) // width) * width
    bounds = [[(p.start, p.stop) if isinstance(p, slice) else (p, p + 1) for p in row] for row in columns]
    bounds = torch.tensor([[*row, *[(0, 0)] * (room - len(row))] for row in bounds])
    bounds = bounds[:, None, None].to(device, non_blocking=device.type == "cuda")
    positions = torch.arange(keys, device=device)[:, None]
    values = ((positions >= bounds[..., 0]) & (positions < bounds[..., 1])).to(dtype)
    return values.split(width, dim=-1)


class AttentionSums:
    """Sums of the probabilities of the denoiser's cross-attention layers over the calls of one block.

    Of each layer that enters the maps (rows, heads, pixels, columns): each head's map is resized by itself in a mean.
    Also each layer by itself, heads averaged or (`head_maps`) apart, in `bins` bins of calls (0 for none). `call`
    returns the call under way, or None. `columns`: by row of the batch, the positions of the text that have a column,
    from the same one on.
    HookError for a denoiser without such a layer, or whose attention is not a plain softmax.
    """

    kind, fused = "cross", "to_kv"
    in_chunks = False  # whether the softmax is taken in chunks on every device
    adds_tokens = False  # whether a word's map is its tokens' sum, rather than their mean
    columns: tuple[tuple[int, ...], ...] = ()

    def __init__(
        self,
        pipe: Any,
        call: Callable[[], Call | None],
        definition: Definition,
        bins: int = 0,
        head_maps: bool = False,
    ) -> None:
        self._call, self.definition, self._bins, self._head_maps = call, definition, bins, head_maps
        layers = self._attention_layers(pipe)
        self.entering = {layer.address: layer for layer in self._select_layers(layers)}
        self.layers = layers if bins else list(self.entering.values())
        self._queries: dict[str, Tensor] = {}
        self._seen = dict.fromkeys((layer.address for layer in self.layers), 0)
        self._unread: set[str] = set()  # layers that do not enter at this size
        self.latent: tuple[int, int, int] | None = None  # rows, height, width
        self._window = slice(None)  # of the text, the positions that are summed
        self._waiting: dict[Alike, list[tuple[str, Tensor, Tensor]]] = {}  # addresses, queries and keys
        self._sums: dict[tuple[str, ...], Tensor] = {}  # for the definition, by layers
        self._together: tuple[str, ...] = ()  # layers that are summed to one, if they are
        self._targets: dict[
            tuple[str, ...], list[tuple[Tensor, Tensor]]
        ] = {}  # sums by parts, with indicators
        self._heat: Tensor | None = None  # the maps, once the last planned call has ended
        self._binned: dict[str, Tensor] = {}  # (rows, bins, heads or 1, pixels, columns), by layer
        self._calls: list[int] = []  # in each bin, where there are several

    def _attention_layers(self, pipe: Any) -> list[AttentionLayer]:
        """Return the denoiser's attention layers of `kind`, in the order they run; HookError for an unreadable one."""
        architecture, layers = architecture_of(pipe), []
        architecture.require_readable(pipe)
        for site, factor in architecture.attentions(pipe, self.kind):
            module = module_at(pipe, site.module)
            layers.append(AttentionLayer(site.address, factor, head_count(module), module))
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
        """Add a layer's attention probabilities of the prompts' rows, or let its queries and keys wait for others."""
        batch = call.batch
        if not self._count_run(layer, call, key.shape[1]):
            return
        height, width = layer.size(batch.height, batch.width)
        if query.shape[1] != height * width:
            raise HookError(
                f"{layer.address}: expected {height * width} pixels, 1/{layer.factor} of the latent's "
                f"{batch.height}x{batch.width}, but got {query.shape[1]}"
            )
        if self.in_chunks or self._bins or query.device.type in IN_CHUNKS:
            return self._add_in_chunks(layer, query, key, call)
        alike = (query.shape, query.dtype, query.device, layer.heads, layer.module.scale)
        waiting = self._waiting.setdefault(alike, [])
        waiting.append((layer.address, query, key))
        if len(waiting) * query.nbytes >= WAITING:
            self._add_waiting(alike, batch)

    def _add_waiting(self, alike: Alike, batch: Batch) -> None:
        """Add the probabilities of layers of one shape that wait, by one attention to indicators of the tokens."""
        (_, pixels, width), dtype, device, heads, scale = alike
        addresses, *parts = zip(*self._waiting.pop(alike))
        query, key = (  # (rows * layers, heads, positions, width of a head)
            batch.conditional(torch.cat(layers, dim=1) if len(layers) > 1 else layers[0], addresses[0])
            .reshape(-1, layers[0].shape[1], heads, width // heads)
            .transpose(1, 2)
            for layers in parts
        )
        if addresses not in self._targets:
            columns = range(key.shape[2])[self._window]
            total = _zeros(self._sums, addresses, (len(query), heads, pixels, len(columns)), device)
            values = indicators([columns], key.shape[2], width // heads, dtype, device)
            values = [one.expand(len(query), heads, -1, -1) for one in values]
            self._targets[addresses] = [*zip(total.split(width // heads, dim=-1), values)]
        for part, values in self._targets[addresses]:
            attention = F.scaled_dot_product_attention(query, key, values, scale=scale)
            part.add_(attention[..., : part.shape[-1]])

    def _add_in_chunks(self, layer: AttentionLayer, query: Tensor, key: Tensor, call: Call) -> None:
        """Add a layer's probabilities, the softmax in float32 of a few rows or heads at a time."""
        query, key = (call.batch.conditional(values, layer.address) for values in (query, key))
        (rows, pixels, _), tokens = query.shape, key.shape[1]
        heads, limit = layer.heads, CHUNK_ON_CPU if query.device.type == "cpu" else CHUNK
        query = query.view(rows, pixels, heads, -1).transpose(1, 2)  # (rows, heads, pixels, width)
        key = key.view(rows, tokens, heads, -1).permute(0, 2, 3, 1)  # (rows, heads, width, tokens)
        steps = [max(1, limit // (size * pixels * tokens)) for size in (heads, 1)]
        for row, head in itertools.product(range(0, rows, steps[0]), range(0, heads, steps[1])):
            where = (slice(row, row + steps[0]), slice(head, head + steps[1]))
            left, right = (values[where].flatten(0, 1).float() for values in (query, key))
            scores = torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=layer.module.scale)
            probabilities = self._probabilities(scores)
            by_head = probabilities.unflatten(0, query[where].shape[:2])
            self._accumulate(layer, where, by_head)
            self._accumulate_bins(layer, where, by_head, call)

    def _probabilities(self, scores: Tensor) -> Tensor:
        """Return the attention to the columns that are summed, from the scores of all keys."""
        return scores.softmax(dim=-1)[..., self._window]

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
        """Set the columns that are summed and the calls of each bin; HookError if their number is not known."""
        start = next((row[0] for row in self.columns if row), 0)
        stop = max((row[-1] + 1 for row in self.columns if row), default=start + 1)
        self._window = slice(start, stop + bool(self.definition.following))
        if self._bins > 1:
            if self._planned is None:
                raise HookError(
                    "layer_maps: the pipeline does not say how many calls it plans: choose layer_maps=1"
                )
            bins = min(self._bins, self._planned)
            self._bin_of = [call * bins // self._planned for call in range(self._planned)]
            self._calls = [self._bin_of.count(number) for number in range(bins)]

    def _accumulate(self, layer: AttentionLayer, where: Where, probabilities: Tensor) -> None:
        """Add probabilities (rows, heads, pixels, columns) of the rows and heads `where` to the layer's sums."""
        rows, shape, device = self.latent[0], probabilities.shape[2:], probabilities.device
        if layer.address in self.entering:
            total = _zeros(
                self._sums, self._together or (layer.address,), (rows, layer.heads, *shape), device
            )
            total[where].add_(probabilities.to(total.device))

    def _accumulate_bins(
        self, layer: AttentionLayer, where: Where, probabilities: Tensor, call: Call
    ) -> None:
        """Add probabilities, as of `_accumulate`, to the layer's sum of the call's bin; nothing without bins."""
        if not self._bins:
            return
        heads = layer.heads if self._head_maps else 1
        size = self.latent[0], len(self._calls) or 1, heads, *probabilities.shape[2:]
        total = _zeros(self._binned, layer.address, size, probabilities.device)
        number = self._bin_of[call.number] if self._calls else 0
        if self._head_maps:
            total[where[0], number, where[1]].add_(probabilities)
        else:
            total[where[0], number, 0].add_(probabilities.sum(dim=1), alpha=1 / layer.heads)

    def end_call(self, call: Call) -> None:
        """Add what waits; after the last planned call combine the sums to maps, before the VAE needs the memory."""
        for alike in list(self._waiting):
            self._add_waiting(alike, call.batch)
        if call.number + 1 == call.planned and self._sums:
            self._heat = self._combine_layers()

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
        if self._heat is None:
            self._heat = self._combine_layers()
        heat, attention = self._heat, None
        if refine is not None:
            attention = refine.self_attention()
            heat = torch.stack([refine.refine_maps(*pair) for pair in zip(heat, attention.to(heat.device))])
            attention = attention.cpu().numpy()
        heat, name = heat[:, : max(map(len, self.columns))].cpu().numpy(), self.definition.name
        about = self.columns, self.adds_tokens, name, self.definition.version
        return WordMaps(heat, tuple(self.entering), *about, self_attention=attention)

    def _combine_layers(self) -> Tensor:
        """Return the heat maps (rows, columns, height, width) by the definition, and drop the sums."""
        rows, *size = self.latent
        product, weight = self.definition.combine == "product", self.definition.following
        self._targets.clear()
        first = next(iter(self._sums.values()))
        heat = torch.zeros((rows, first.shape[-1], *size), device=first.device)
        for addresses in list(self._sums):
            sums = self._sums.pop(addresses)
            layer, floor = self.entering[addresses[0]], FLOOR * self._seen[addresses[0]]
            small = layer.size(*size)
            for row, maps in zip(heat, sums.view(rows, -1, *sums.shape[2:])):
                if product:
                    maps = maps.unflatten(0, (len(addresses), -1)).mean(dim=1)
                for chunk in maps.split(max(1, RESIZED_AT_ONCE // row.numel())):
                    chunk = chunk.mT.unflatten(2, small).to(row.device)
                    if small != tuple(size):
                        chunk = F.interpolate(chunk.contiguous(), size=size, mode="bicubic").clamp_(min=0)
                    if product:
                        after = torch.cat([chunk[:, 1:], chunk[:, -1:]], dim=1)
                        chunk = ((chunk + weight * after) / (1 + weight) + floor).log_()
                    row.add_(chunk.sum(dim=0))
        heat /= sum(1 if product else layer.heads for layer in self.entering.values())
        return heat.exp_().pow_(self.definition.power) if product else heat

    def layer_maps(self, calls: int) -> LayerMaps | None:
        """Return the sums of each layer by itself, over `calls` calls of the denoiser; None if not requested."""
        if not self._bins:
            return None
        size, layers = self.latent[1:], {layer.address: layer for layer in self.layers}
        by_head = {
            address: total.mT.unflatten(-1, layers[address].size(*size)).cpu().numpy()
            for address, total in self._binned.items()
        }
        values = {address: maps.mean(axis=2) for address, maps in by_head.items()}
        heads = {address: layers[address].heads for address in values}
        about = tuple(self._calls) or (calls,), heads, size, self.columns, self.adds_tokens
        return LayerMaps(values, *about, by_head if self._head_maps else None)


class RefineSums(AttentionSums):
    """Sums of self-attention (rows, pixels, pixels) over layers and calls, along which heat maps are spread.

    Layers on the finest grid of at most `REFINE_GRID` pixels enter, or on the coarsest if all are finer.
    """

    kind, fused = "self", "to_qkv"
    in_chunks = True

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

    def _accumulate(self, layer: AttentionLayer, where: Where, probabilities: Tensor) -> None:
        """Add probabilities, averaged over heads, to the one sum of all layers."""
        shape = (self.latent[0], *probabilities.shape[2:])
        total = _zeros(self._sums, (), shape, probabilities.device)
        total[where[0]].add_(probabilities.sum(dim=1).to(total.device), alpha=1 / layer.heads)

    def self_attention(self) -> Tensor:
        """Return the mean probability (rows, pixels, pixels) with which each pixel attends to each pixel."""
        return self._sums[()] / self._sums[()].sum(dim=2, keepdim=True)

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


def _zeros(sums: dict[Any, Tensor], key: Any, shape: Sequence[int], device: torch.device) -> Tensor:
    """Return the sum of this key, zeros of this shape at first."""
    if key not in sums:
        sums[key] = torch.zeros(tuple(shape), device=device)
    return sums[key]
