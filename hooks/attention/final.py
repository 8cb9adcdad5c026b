"""Attention of transformers, read where the model itself takes its softmax: off the final queries, keys and values.

While an attention runs, a mode of torch looks at `scaled_dot_product_attention`, so that norms, rotary positions,
concatenation, masks and scale are the model's own and no processor is replaced. What the image's positions attend to
is had of a second call on the same queries and keys, whose values are indicators: a column for each token of the
prompts' words, 1 where that token's key stands, and one for all of the text. The product of the softmax with such
values is the attention that is paid them, by any kernel and without the matrix of all positions.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Call
from hooks.attention.attention import AttentionSums, indicators
from hooks.attention.definitions import AttentionLayer, Definition, default_name
from hooks.attention.maps import WordMaps
from hooks.errors import HookError

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class AttentionListener(TorchFunctionMode):
    """Torch function mode that calls back with arguments (by name) and result of `scaled_dot_product_attention`."""

    def __init__(self, receive: Callable[[dict[str, Any], Tensor], None]) -> None:
        super().__init__()
        self._receive = receive

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            self._receive({**dict(zip(_NAMES, args)), **(kwargs or {})}, result)
        return result


class FinalSums(AttentionSums):
    """Sums of the attention from a transformer's image positions to the prompts' tokens, as `AttentionSums`.

    Heads are averaged, and in a mean all layers are summed together. After the columns comes the attention to all of
    the text, except for a reading of outputs.
    """

    adds_tokens = True

    def __init__(
        self,
        pipe: Any,
        call: Callable[[], Call | None],
        definition: Definition,
        bins: int = 0,
        head_maps: bool = False,
    ) -> None:
        self._architecture = architecture_of(pipe)
        self._reading, self._reads_outputs = definition.reading, definition.reading == "output"
        if self._reading == "probability":
            raise HookError(
                f"definition {definition.name!r}: takes the softmax over a U-Net's text alone, but "
                f"{type(pipe).__name__} has attentions of its own kind: "
                f"choose {default_name(self._architecture.readings)}"
            )
        if not definition.layers:
            definition = replace(definition, layers=self._architecture.word_layers(pipe))
        super().__init__(pipe, call, definition, bins, head_maps)
        self._together = tuple(self.entering) if definition.combine == "mean" else ()
        self.entering = {address: replace(layer, heads=1) for address, layer in self.entering.items()}
        self._was_read = True  # while no layer runs
        self._indicators: dict[Any, list[Tensor]] = {}  # by layout of the keys
        self._listening = contextlib.ExitStack()

    def _attention_layers(self, pipe: Any) -> list[AttentionLayer]:
        """Return the layers, all on the grid of patches; to read outputs, joint blocks of two streams, as one head."""
        layers = [replace(layer, factor=1) for layer in super()._attention_layers(pipe)]
        if not self._reads_outputs:
            return layers
        stacks = [(layer, self._architecture.stack_of(layer.address)) for layer in layers]
        return [
            replace(layer, heads=1) for layer, stack in stacks if stack.role == "joint" and not stack.single
        ]

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Hook every layer to read its attention while it runs; closing `stack` removes the hooks."""
        for layer in self.layers:
            before, after = self._listener_hooks(layer)
            stack.callback(layer.module.register_forward_pre_hook(before).remove)
            stack.callback(layer.module.register_forward_hook(after, always_call=True).remove)
        stack.callback(self._listening.close)  # torch calls no hook after an interrupt

    def _listener_hooks(self, layer: AttentionLayer) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return hooks that listen while a layer runs; the second raises HookError if torch's attention did not run."""

        def before(module: Any, args: Any) -> None:
            if self._call() is not None:
                self._was_read = False
                receive = functools.partial(self._read_attention, layer)
                self._listening.enter_context(AttentionListener(receive))

        def after(module: Any, args: Any, output: Any) -> None:
            self._listening.close()
            if output is not None and not self._was_read:  # None after an exception
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
    def _read_attention(self, layer: AttentionLayer, arguments: dict[str, Any], result: Tensor) -> None:
        """Add a layer's attention from arguments and result of its first call of `scaled_dot_product_attention`."""
        call = self._call()
        if call is None or self._was_read:  # an adapter's second attention, or a nested probe's to indicators
            return
        self._was_read = True
        batch, sequence = call.batch, self._architecture.stack_of(layer.address).sequence
        keys, expected = arguments["key"].shape[-2], batch.sequence_length(sequence)
        joint = arguments["query"].shape[-2] == keys and "image" in sequence
        if keys != expected:
            raise HookError(f"{layer.address}: expected {expected} keys ({sequence}), but got {keys}")
        text = batch.spans("text", sequence)

        def image_positions(values: Tensor, dim: int) -> Tensor:
            return batch.narrow(values, "image", sequence, dim) if joint else values

        self._count_run(layer, call, max(map(len, self.columns)) + (not self._reads_outputs))
        query = image_positions(batch.conditional(arguments["query"], layer.address), -2)
        pixels = batch.grid[0] * batch.grid[1]
        if query.shape[-2] != pixels:
            raise HookError(
                f"{layer.address}: expected {pixels} queries of the image, but got {query.shape[-2]}"
            )
        if self._reads_outputs:
            outputs = batch.conditional(result, layer.address).transpose(1, 2).flatten(2).float()
            attention = self._output_similarities(image_positions(outputs, 1), outputs, text)
        else:
            key, mask = batch.conditional(arguments["key"], layer.address), arguments.get("attn_mask")
            if mask is not None:
                mask = mask if mask.shape[0] == 1 else batch.conditional(mask, layer.address)
                mask = mask if mask.shape[-2] == 1 else image_positions(mask, -2)
            more = {name: arguments[name] for name in ("scale", "enable_gqa") if name in arguments}
            parts = [
                F.scaled_dot_product_attention(query, key, values, attn_mask=mask, **more)
                for values in self._token_indicators(key, text)
            ]
            attention = torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]
            attention = attention[..., : max(map(len, self.columns)) + 1].float()
        if self._reading == "share":
            attention = torch.cat([attention[..., :-1] / attention[..., -1:], attention[..., -1:]], dim=-1)
        mean, everywhere = attention.mean(dim=1, keepdim=True), (slice(None), slice(None))
        self._accumulate(replace(layer, heads=1), everywhere, mean)
        self._accumulate_bins(layer, everywhere, attention, call)

    def word_maps(self, refine: AttentionSums | None) -> WordMaps:
        """Return the heat maps of every row by the definition and, unless outputs are read, of all the text."""
        maps = super().word_maps(None)
        return maps if self._reads_outputs else replace(maps, text=self._heat[:, -1].cpu().numpy())

    def _token_indicators(self, key: Tensor, text: list[slice]) -> list[Tensor]:
        """Return values that indicate each token of the columns and, behind these, all the text: once for a layout."""
        layout = (*((span.start, span.stop) for span in text), *key.shape, key.dtype, key.device)
        if layout not in self._indicators:
            width = max(map(len, self.columns))
            columns = [
                [*(span.start + place for place in row), *[slice(0, 0)] * (width - len(row)), span]
                for row, span in zip(self.columns, text, strict=True)
            ]
            values = indicators(columns, *key.shape[2:], key.dtype, key.device)
            self._indicators[layout] = [one.expand(-1, key.shape[1], -1, -1) for one in values]
        return self._indicators[layout]

    def _output_similarities(self, image: Tensor, outputs: Tensor, text: list[slice]) -> Tensor:
        """Return the softmax over the prompt's tokens of products of outputs, shape (rows, 1, pixels, columns)."""
        width = max(map(len, self.columns))
        similarities = torch.zeros((len(outputs), 1, image.shape[1], width), device=outputs.device)
        for row, (positions, span) in enumerate(zip(self.columns, text, strict=True)):
            if positions:
                words = torch.stack([outputs[row, span.start + position] for position in positions])
                # what the words have in common cancels in the softmax, and would cost digits
                scores = image[row] @ (words - words.mean(0)).T
                similarities[row, 0, :, : len(positions)] = scores.softmax(dim=-1)
        return similarities
