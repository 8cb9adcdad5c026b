"""Maps of concepts: words that need not be in the prompt, and that the image does not read.

In a U-Net the states of a concept's tokens, from a prompt of its own, give keys k by each layer's `to_k`. Its map is
what the image's queries q would pay them beside the prompt's keys j, with the layer's own scale s:

    p(k) = exp(s q.k) / (sum over j of exp(s q.j) + sum over the concept's k' of exp(s q.k'))

summed over heads, layers and calls as DAAM does, mean over tokens. Each concept is taken by itself, so that a map does
not depend on which others are asked for.

In joint attention (Helbling et al., ICML 2025, ConceptAttention) the concepts' tokens are a third stream. Before a
block of two streams runs, it runs with them in place of the text: its norms, modulation, attention (they read the image
and one another), feed-forward. What that gives the image is dropped. A concept's map is the softmax over the concepts
of the product of the attention's outputs at the concept (mean over its tokens) and at the place of the image, which
comes from the model's own pass; mean over the blocks of `output-space`, sum over calls.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Batch, Call, Inputs, children, module_at
from hooks.architectures.text_encoders import TEXT_ENCODERS, text_cores
from hooks.attention.attention import AttentionSums
from hooks.attention.definitions import DAAM, OUTPUT_SPACE, AttentionLayer
from hooks.attention.final import AttentionListener, FinalSums
from hooks.errors import HookError
from hooks.prompt.spans import split_pieces
from hooks.prompt.text import TextReader, select_runs
from hooks.prompt.wordlist import PromptWords

# arguments of a block that a stream of concepts has values for
_BLOCK = {"hidden_states", "encoder_hidden_states", "temb", "image_rotary_emb", "attention_mask"}
_BLOCK |= {"joint_attention_kwargs"}


@dataclass(frozen=True)
class Concepts:
    """Concepts by name: the states (tokens, width) of their tokens one after another, and each one's positions.

    `positions` are those in the text of the concept's own prompt, as the denoiser would be given it.
    """

    states: Tensor
    positions: dict[str, tuple[int, ...]]

    @property
    def lengths(self) -> list[int]:
        """Number of tokens of each concept."""
        return [len(positions) for positions in self.positions.values()]


@contextlib.contextmanager
def _without_hooks(module: Any) -> Iterator[None]:
    """Context manager in which a module, and those within it, run without the forward hooks that are on them."""
    names = ("_forward_pre_hooks", "_forward_hooks")
    before = [(part, name, getattr(part, name)) for part in module.modules() for name in names]
    try:
        for part, name, _ in before:
            setattr(part, name, OrderedDict())
        yield
    finally:
        for part, name, hooks in before:
            setattr(part, name, hooks)


@torch.no_grad()
def encode(pipe: Any, names: Sequence[str]) -> Concepts:
    """Return concepts as the pipeline's own text encoders read each by itself; HookError if they cannot."""
    names = [names] if isinstance(names, str) else list(names)
    if not all(isinstance(name, str) and split_pieces(name) for name in names) or len({*names}) < len(names):
        raise HookError(f"concepts: expected different words of letters or digits, but got {names!r:.200}")
    architecture = architecture_of(pipe)
    readers = [TextReader(pipe, name, TEXT_ENCODERS[name]) for name in text_cores(pipe)]
    if not readers or not hasattr(pipe, "encode_prompt"):
        raise HookError(
            f"concepts: expected a {type(pipe).__name__} with text encoders, which read the words, but got none: load "
            "it with them, or leave concepts out"
        )
    taken = inspect.signature(pipe.encode_prompt).parameters
    options = {"prompt": names, "prompt_2": None, "prompt_3": None, "device": pipe._execution_device}
    options |= {"num_images_per_prompt": 1, "do_classifier_free_guidance": False}
    with contextlib.ExitStack() as stack:
        for reader in readers:
            reader.attach(stack)
        states = pipe.encode_prompt(**{name: options[name] for name in options if name in taken})[0]
    words = PromptWords(pipe, names, None, select_runs(readers, states), len(names), states.shape[1])
    denoiser = architecture.transformer
    positions = {name: words.locate(name, row, None, denoiser)[1] for row, name in enumerate(names)}
    rows = [states[row, list(one)] for row, one in enumerate(positions.values())]
    return Concepts(torch.cat(rows), positions)


class ConceptKeySums(AttentionSums):
    """Sums of what a U-Net's image would pay concepts' tokens, a column each (module docstring)."""

    in_chunks = True

    def __init__(self, pipe: Any, call: Callable[[], Call | None], concepts: Concepts) -> None:
        super().__init__(pipe, call, DAAM)
        self._concepts, self.width = concepts, len(concepts.states)

    def _add_attention(self, layer: AttentionLayer, query: Tensor, key: Tensor, call: Call) -> None:
        """Add a layer's attention to the concepts' keys, which stand behind the prompt's."""
        attention, states = layer.module, self._concepts.states.to(key)[None]
        if attention.norm_cross is not None:
            states = attention.norm_encoder_hidden_states(states)
        fused = getattr(attention, "fused_projections", False)
        # `.forward`: no hook fires, but an offloading wrapper does its work
        own = attention.to_kv.forward(states).chunk(2, -1)[0] if fused else attention.to_k.forward(states)
        super()._add_attention(layer, query, torch.cat([key, own.expand(len(key), -1, -1)], dim=1), call)

    def _probabilities(self, scores: Tensor) -> Tensor:
        """Return the attention to each concept's tokens, beside the prompt's and no other concept's."""
        prompt, own = scores.split((scores.shape[-1] - self.width, self.width), dim=-1)
        paid = prompt.logsumexp(-1, keepdim=True)
        parts = own.split(self._concepts.lengths, dim=-1)
        return torch.cat(
            [(part - part.logsumexp(-1, keepdim=True).logaddexp(paid)).exp() for part in parts], dim=-1
        )


class ConceptStreamSums(FinalSums):
    """Sums of a transformer's softmax over concepts of products of outputs, a column each (module docstring)."""

    def __init__(
        self,
        pipe: Any,
        call: Callable[[], Call | None],
        inputs: Callable[[], Inputs | None],
        concepts: Concepts,
    ) -> None:
        super().__init__(pipe, call, OUTPUT_SPACE)
        self._concepts, self._inputs, self.width = concepts, inputs, len(concepts.positions)
        self._stack = self._architecture.row.stacks[0]
        path = self._architecture.entrances(pipe)["dit.in.text"]
        self._entrance = module_at(self._architecture.denoiser(pipe), path)
        self._blocks = children(self._architecture.denoiser(pipe), self._stack.path)
        last = max(int(address.split(".")[2]) for address in self.entering)
        self._blocks = self._blocks[: last + 1]
        taken = {*inspect.signature(type(self._blocks[0]).forward).parameters} - {"self"}
        if not taken <= _BLOCK or not {"hidden_states", "encoder_hidden_states"} <= taken:
            self._refuse(f"blocks that take {', '.join(sorted(taken - _BLOCK))}")
        if self.width < 2:
            raise HookError(
                f"concepts: expected two or more, since their maps are a softmax over them, but got "
                f"{', '.join(concepts.positions)} alone: add what else is in the image, such as 'background'"
            )
        self._stream: Tensor | None = (
            None  # states (rows, tokens, width) of the concepts behind the last block
        )
        self._outputs: Tensor | None = (
            None  # of the attention under way at each concept (rows, concepts, channels)
        )

    def _refuse(self, got: str) -> None:
        """Raise the HookError for a model whose blocks cannot run with concepts in place of the text."""
        raise HookError(
            "concepts: expected blocks that take the embedded text as their stream, as those of SD3 and FLUX.1, but "
            f"{type(self._blocks[0]).__name__} has {got}: leave concepts out"
        )

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Hook every block to run with the concepts first; closing `stack` removes the hooks."""
        super().attach(stack)
        stack.callback(self._entrance.register_forward_hook(self._store_embedding).remove)
        for number, block in enumerate(self._blocks):
            hook = functools.partial(self._run_block, number)
            stack.callback(block.register_forward_pre_hook(hook, with_kwargs=True).remove)

    def _store_embedding(self, module: Any, args: Any, output: Tensor) -> None:
        """Hold what the module that embeds the text was given, and its output."""
        self._embedding = args[0] if args else None, output

    @torch.no_grad()
    def _run_block(self, number: int, block: Any, args: Any, kwargs: Any) -> None:
        """Run a block with the concepts in place of the text, and keep their stream and their attention outputs."""
        call = self._call()
        if call is None:
            return
        batch, sequence, lengths = call.batch, self._stack.sequence, self._concepts.lengths

        def prompts_rows(value: Any) -> Any:
            """Return the rows of the prompts in a tensor that has rows of all branches, else the value itself."""
            whole = isinstance(value, Tensor) and len(value) == batch.rows * len(batch.branches)
            return batch.conditional(value, self._stack.address) if whole else value

        def positions(value: Any) -> Any:
            """Return rotary positions (…, positions, width) in which all concepts' tokens stand at the text's first."""
            text, image = (batch.spans(stream, sequence)[0] for stream in ("text", "image"))
            first = value[..., text.start : text.start + 1, :].expand(*value.shape[:-2], sum(lengths), -1)
            parts = {"text": first, "image": value[..., image, :]}
            return torch.cat([parts[stream] for stream in sequence], dim=-2)

        arguments = inspect.signature(type(block).forward).bind(block, *args, **kwargs).arguments
        if number == 0:
            self._stream = self._enter(arguments["encoder_hidden_states"], batch)
        arguments = {name: tree_map(prompts_rows, arguments[name]) for name in [*arguments][1:]}
        arguments |= {"encoder_hidden_states": self._stream}
        if "attention_mask" in arguments:  # of the prompt's padding
            arguments["attention_mask"] = None
        if arguments.get("image_rotary_emb") is not None:
            arguments["image_rotary_emb"] = tree_map(positions, arguments["image_rotary_emb"])
        results: list[Tensor] = []  # the first is the joint attention's; an adapter may run others
        with _without_hooks(block), AttentionListener(lambda _, result: results.append(result)):
            output = block.forward(**arguments)
        (span, *_) = replace(batch, text_tokens=sum(lengths), lengths=()).spans("text", sequence)
        outputs = results[0].transpose(1, 2).flatten(2).float()[:, span]
        self._outputs = torch.stack([part.mean(dim=1) for part in outputs.split(lengths, dim=1)], dim=1)
        self._stream = output[self._stack.streams["text"]]

    def _enter(self, text: Tensor, batch: Batch) -> Tensor:
        """Return the concepts' tokens as the first block takes a text; HookError if that is no embedding alone."""
        (given, embedded), states = self._embedding, self._inputs().text
        self._embedding = None, None
        if (
            text is not embedded
            or given is None
            or batch.conditional(given, "").data_ptr() != states.data_ptr()
        ):
            self._refuse("a text that more than one module embeds")
        with _without_hooks(self._entrance):
            return self._entrance.forward(self._concepts.states.to(states)[None]).expand(batch.rows, -1, -1)

    def _output_similarities(self, image: Tensor, outputs: Tensor, text: list[slice]) -> Tensor:
        """Return the softmax over concepts of products of outputs, shape (rows, 1, pixels, concepts)."""
        # what the concepts have in common cancels in the softmax, and would cost digits
        apart = self._outputs - self._outputs.mean(dim=1, keepdim=True)
        return (image @ apart.mT).softmax(dim=-1)[:, None]


def concept_sums(
    pipe: Any, call: Callable[[], Call | None], inputs: Callable[[], Inputs | None], names: Sequence[str]
) -> tuple[AttentionSums, dict[str, tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Return new sums for maps of concepts, and of each concept its columns there and its positions in its own prompt.

    HookError for a model that has no such maps.
    """
    architecture = architecture_of(pipe)
    if architecture.transformer and "output" not in architecture.readings:
        raise HookError(
            f"concepts: expected a U-Net, or a transformer with blocks of two streams, but got {architecture.name}, "
            "which has neither: leave concepts out"
        )
    concepts = encode(pipe, names)
    if architecture.transformer:
        columns = [(number,) for number in range(len(concepts.positions))]
        sums: AttentionSums = ConceptStreamSums(pipe, call, inputs, concepts)
    else:
        parts = torch.arange(len(concepts.states)).split(concepts.lengths)
        columns, sums = [tuple(part.tolist()) for part in parts], ConceptKeySums(pipe, call, concepts)
    return sums, dict(zip(concepts.positions, zip(columns, concepts.positions.values())))
