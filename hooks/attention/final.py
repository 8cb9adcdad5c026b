"""Attention of transformers, read where the model itself takes its softmax: off the final queries, keys and values.

While an attention runs, a mode of torch looks at `scaled_dot_product_attention`, so that norms, rotary positions,
concatenation, masks and scale are the model's own and no processor is replaced. What the image's positions attend to
is had of a second call on the same queries and keys, whose values are indicators: a column for each token of the
prompts' words, 1 where that token's key stands, and one for all of the text. The product of the softmax with such
values is the attention that is paid them, by any kernel and without the matrix of all positions.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Batch, Call
from hooks.attention.attention import AttentionSums
from hooks.attention.definitions import AttentionLayer, Definition, default_name
from hooks.attention.maps import WordMaps
from hooks.errors import HookError

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
_BUSY = threading.local()  # while a second call runs, nobody looks: probes nest


class _Watch(TorchFunctionMode):
    """Hands on what `scaled_dot_product_attention` is given, by name, and what it returns."""

    def __init__(self, receive: Callable[[dict[str, Any], Tensor], None]) -> None:
        super().__init__()
        self._receive = receive

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention and not getattr(_BUSY, "now", False):
            _BUSY.now = True
            try:
                self._receive({**dict(zip(_NAMES, args)), **(kwargs or {})}, result)
            finally:
                _BUSY.now = False
        return result


class FinalSums(AttentionSums):
    """Sums of what the image's positions pay the words, as `AttentionSums`.

    `columns`: by row of the batch, the positions of the text that have a column. Behind them is what is paid all of
    the text, but for a reading of outputs.
    """

    def __init__(
        self, pipe: Any, call: Callable[[], Call | None], definition: Definition, bins: int = 0
    ) -> None:
        self._architecture = architecture_of(pipe)
        self._reading, self._whole = definition.reading, definition.reading == "output"
        if self._reading == "probability":
            raise HookError(
                f"definition {definition.name!r}: takes the softmax over a U-Net's text alone, but "
                f"{type(pipe).__name__} has attentions of its own kind: "
                f"choose {default_name(self._architecture.readings)}"
            )
        if not definition.layers:
            definition = replace(definition, layers=self._architecture.word_layers(pipe))
        super().__init__(pipe, call, definition, bins)
        self.columns = ()
        self._saw = False
        self._watches: list[_Watch] = []

    def _layers(self, pipe: Any) -> list[AttentionLayer]:
        """All on the grid of patches; outputs, of blocks with both streams, are compared over all heads at once."""
        layers = [replace(layer, factor=1) for layer in super()._layers(pipe)]
        if not self._whole:
            return layers
        stacks = [(layer, self._architecture.stack_of(layer.address)) for layer in layers]
        return [
            replace(layer, heads=1) for layer, stack in stacks if stack.role == "joint" and not stack.single
        ]

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Watch every layer while it runs; closing the stack takes the hooks off."""
        for layer in self.layers:
            before, after = self._around(layer)
            stack.callback(layer.module.register_forward_pre_hook(before).remove)
            stack.callback(layer.module.register_forward_hook(after, always_call=True).remove)

        def leave() -> None:  # torch calls no hook after an interrupt
            while self._watches:
                self._watches.pop().__exit__(None, None, None)

        stack.callback(leave)

    def _around(self, layer: AttentionLayer) -> tuple[Callable[..., None], Callable[..., None]]:
        watches = self._watches

        def before(module: Any, args: Any) -> None:
            if self._call() is not None:
                self._saw = False
                watches.append(_Watch(lambda given, result: self._take(layer, given, result)))
                watches[-1].__enter__()

        def after(module: Any, args: Any, output: Any) -> None:
            if watches:
                watches.pop().__exit__(None, None, None)
                if output is not None and not self._saw:  # None after an exception
                    processor = getattr(layer.module, "processor", None)
                    backend = getattr(processor, "_attention_backend", None)
                    backend = backend or "of the surrounding attention_backend"
                    raise HookError(
                        f"{layer.address}: its attention ran without torch's scaled_dot_product_attention "
                        f"({type(processor).__name__}, backend {getattr(backend, 'value', backend)}), so that nothing "
                        "was read: call pipe.transformer.set_attention_backend('native'), or leave attention maps off"
                    )

        return before, after

    @torch.no_grad()
    def _take(self, layer: AttentionLayer, given: dict[str, Any], result: Tensor) -> None:
        call = self._call()
        if call is None or self._saw:  # a second attention within one module (of an adapter) reads no text
            return
        self._saw = True
        batch, sequence = call.batch, self._architecture.stack_of(layer.address).sequence
        keys, expected = given["key"].shape[-2], batch.sequence_length(sequence)
        joint = given["query"].shape[-2] == keys and "image" in sequence
        if keys != expected:
            raise HookError(f"{layer.address}: expected {expected} keys ({sequence}), but got {keys}")
        text = batch.spans("text", sequence)

        def of_image(values: Tensor, dim: int) -> Tensor:
            return batch.narrow(values, "image", sequence, dim) if joint else values

        self._begin(layer, call, max(map(len, self.columns)) + (not self._whole))
        query = of_image(batch.conditional(given["query"], layer.address), -2)
        pixels = batch.grid[0] * batch.grid[1]
        if query.shape[-2] != pixels:
            raise HookError(
                f"{layer.address}: expected {pixels} queries of the image, but got {query.shape[-2]}"
            )
        if self._whole:
            whole = batch.conditional(result, layer.address).transpose(1, 2).flatten(2).float()
            values = self._outputs(of_image(whole, 1), whole, text)
        else:
            values = self._masses(query, given, batch, of_image, text, layer)
        self._add(layer, (slice(None), slice(None)), values, call)

    def word_maps(self, refine: AttentionSums | None) -> WordMaps:
        """Heat maps of every row by the definition, with the mass of all the text beside them."""
        maps = super().word_maps(None)
        values, text = maps.values, None if self._whole else maps.values[:, -1]
        return replace(maps, values=values[:, : max(map(len, self.columns))], columns=self.columns, text=text)

    def _masses(
        self,
        query: Tensor,
        given: dict[str, Any],
        batch: Batch,
        of_image: Callable[[Tensor, int], Tensor],
        text: list[slice],
        layer: AttentionLayer,
    ) -> Tensor:
        """What is paid each column, shape (rows, heads, pixels, columns)."""
        key = batch.conditional(given["key"], layer.address)
        mask = given.get("attn_mask")
        if mask is not None:
            mask = mask if mask.shape[0] == 1 else batch.conditional(mask, layer.address)
            mask = mask if mask.shape[-2] == 1 else of_image(mask, -2)
        more = {name: given[name] for name in ("scale", "enable_gqa") if name in given}
        parts = []
        for columns in self._indicators(key, text):
            paid = F.scaled_dot_product_attention(query, key, columns, attn_mask=mask, **more)
            parts.append(paid.float())
        width = max(map(len, self.columns)) + 1
        paid = torch.cat(parts, dim=-1)[..., :width]
        if self._reading == "share":
            paid = torch.cat([paid[..., :-1] / paid[..., -1:], paid[..., -1:]], dim=-1)
        return paid

    def _indicators(self, key: Tensor, text: list[slice]) -> Iterator[Tensor]:
        """Values (rows, heads, keys, width of a head) whose columns stand for tokens, and the last for all of the text.

        As wide as the keys, which every kernel takes; several where there are more columns.
        """
        width = max(map(len, self.columns))
        size = key.shape[-1]
        room = -(-(width + 1) // size) * size
        one = torch.zeros((key.shape[0], 1, key.shape[-2], room), dtype=key.dtype, device=key.device)
        for row, (positions, span) in enumerate(zip(self.columns, text, strict=True)):
            if positions:
                places = torch.tensor(positions, device=key.device) + span.start
                one[row, 0, places, torch.arange(len(positions), device=key.device)] = 1
            one[row, 0, span, width] = 1
        for start in range(0, room, size):
            yield one[..., start : start + size].expand(-1, key.shape[1], -1, -1)

    def _outputs(self, image: Tensor, whole: Tensor, text: list[slice]) -> Tensor:
        """Softmax over the tokens of products of outputs, shape (rows, 1, pixels, columns)."""
        width = max(map(len, self.columns))
        found = torch.zeros((len(whole), 1, image.shape[1], width), device=whole.device)
        for row, (positions, span) in enumerate(zip(self.columns, text, strict=True)):
            if positions:
                words = whole[row, span][list(positions)]
                # what the words have in common cancels in the softmax, and would cost digits
                scores = image[row] @ (words - words.mean(0)).T
                found[row, 0, :, : len(positions)] = scores.softmax(dim=-1)
        return found
