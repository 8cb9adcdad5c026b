"""Word maps by an eager softmax in float32, without a probe: what `triptych verify` compares word maps with.

PyTorch's attention is listened to while the pipeline generates, so queries and keys are those that the model ends up
with. Where image and text stand among them is found by experiment, in the first layer of the first step, and not by
what `hooks` knows of a family: queries that another noise changes are the image's, keys that other text states change
are the text's, and rows of the batch that have such keys are those of the prompts.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CUBIC = 1.9  # largest sum of absolute weights of torch's bicubic interpolation in two dimensions, 1.375 ** 2


class UntestableError(Exception):
    """A check that cannot be made on this model or machine; the message is the reason."""


@dataclass(frozen=True)
class Attention:
    """Arguments of one call of PyTorch's attention: (rows, heads, positions, width), mask or None, and scale."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    scale: float

    def probabilities(self, row: int, head: int, positions: Tensor) -> Tensor:
        """Return the softmax over all keys for the queries at `positions`, shape (positions, keys), in float32."""
        (_, heads, queries, _), keys = self.query.shape, self.key.shape[2]
        query, key = self.query[row, head, positions], self.key[row, head * self.key.shape[1] // heads]
        scores = query.float() @ key.float().T * self.scale
        if self.mask is not None:
            mask = self.mask.expand(len(self.query), heads, queries, keys)[row, head, positions]
            scores = (
                scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.float()
            )
        return scores.softmax(dim=-1)

    @property
    def largest_score(self) -> float:
        """An upper bound of absolute scores, by the norms of queries and keys."""
        return self.scale * float(self.query.float().norm(dim=-1).max() * self.key.float().norm(dim=-1).max())


@contextlib.contextmanager
def listening(modules: Mapping[str, Any], receive: Callable[[str, Attention], None]) -> Iterator[None]:
    """Call `receive` with address and arguments of each call of PyTorch's attention within one of the modules."""
    plain, running = F.scaled_dot_product_attention, list[str]()

    def listen(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if running:
            mask = attn_mask
            if is_causal:
                mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=key.device).tril()
            receive(running[-1], Attention(query, key, mask, scale or query.shape[-1] ** -0.5))
        return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    def begin(address: str) -> Callable[..., None]:
        return lambda module, args: running.append(address)

    with contextlib.ExitStack() as stack:
        for address, module in modules.items():
            stack.callback(module.register_forward_pre_hook(begin(address)).remove)
            end = module.register_forward_hook(lambda module, args, output: [running.pop(), None][1])
            stack.callback(end.remove)
        stack.callback(setattr, F, "scaled_dot_product_attention", plain)
        F.scaled_dot_product_attention = listen
        yield


@contextlib.contextmanager
def replaced(target: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Put a function in the place of a method of one object."""
    vars(target)[name] = method
    try:
        yield
    finally:
        vars(target).pop(name)


@contextlib.contextmanager
def other_text_states(pipe: Any) -> Iterator[None]:
    """Add noise to the states that the pipeline's `encode_prompt` returns of the prompts, at every position."""
    encode, calls, noise = pipe.encode_prompt, Counter[str](), torch.Generator().manual_seed(1)

    def change(states: Any) -> Any:
        if isinstance(states, list | tuple):
            return type(states)(map(change, states))
        added = torch.randn(states.shape, generator=noise).to(states.device) * states.float().std()
        return states + added.to(states.dtype)

    def encode_prompt(*args: Any, **kwargs: Any) -> Any:
        first, *others = encode(*args, **kwargs)
        calls["all"] += 1  # a second call encodes negative prompts
        return change(first) if calls["all"] == 1 else first, *others

    with replaced(pipe, "encode_prompt", encode_prompt):
        yield


@dataclass(frozen=True)
class Places:
    """Of each prompt: call within a step, row, the image's queries (None: all) and the text's keys, by position."""

    prompts: tuple[tuple[int, int, Tensor | None, Tensor], ...]
    calls: int  # of a layer's attention in one step

    @classmethod
    def find(cls, pipe: Any, layer: Any, generate: Callable[..., Any], prompts: int) -> Places:
        """Return the places by three generations: as it is, from another noise, and with other text states."""

        def first_step(**more: Any) -> list[Attention]:
            entries, steps = list[Attention](), list[int]()

            def receive(address: str, attention: Attention) -> None:
                if not steps:
                    entries.append(attention)

            with listening({"": layer}, receive):
                generate(after_step=lambda index, tensors: [steps.append(index), {}][1], **more)
            return entries

        plain, noise = first_step(), first_step(seeds=[*range(1000, 1000 + prompts)])
        with other_text_states(pipe):
            texts = first_step()
        found = []
        for number, (one, other, text) in enumerate(zip(plain, noise, texts, strict=True)):
            image = (one.query != other.query).any(dim=3).any(dim=1)
            words = (one.key != text.key).any(dim=3).any(dim=1)
            found += [
                (
                    number,
                    row,
                    None if image[row].all() else image[row].nonzero()[:, 0],
                    words[row].nonzero()[:, 0],
                )
                for row in range(len(image))
                if image[row].any() and words[row].any()
            ]
        if len(found) != prompts:
            raise UntestableError(
                f"{len(found)} rows of the first attention change with image and text of {prompts} prompts"
            )
        return cls(tuple(found), len(plain))


class EagerMaps:
    """Word maps as the sum over steps of the mean over heads and layers, by an eager softmax over all keys.

    `columns` are by prompt the positions of the text that have a map.
    """

    def __init__(self, modules: Mapping[str, Any], places: Places, columns: Sequence[Sequence[int]]) -> None:
        self._modules, self._places, self._columns = modules, places, columns
        self._sums: dict[str, Tensor] = {}  # (prompts, heads, pixels, columns)
        self._count, self._score, self._width, self._keys = Counter[str](), 0.0, 0, 0

    def receive(self, address: str, attention: Attention) -> None:
        """Add one call of a layer's attention."""
        (_, heads, queries, self._width), self._keys = attention.query.shape, attention.key.shape[-2]
        number = self._count[address] % self._places.calls
        self._count[address] += 1
        self._score = max(self._score, attention.largest_score)
        for prompt, (call, row, image, text) in enumerate(self._places.prompts):
            if call != number:
                continue
            pixels = torch.arange(queries, device=text.device) if image is None else image
            columns = text[list(self._columns[prompt])]
            for head in range(heads):
                shape = (len(self._columns), heads, len(pixels), max(map(len, self._columns)))
                if address not in self._sums:
                    self._sums[address] = torch.zeros(shape, device=text.device)
                paid = attention.probabilities(row, head, pixels)[:, columns]
                self._sums[address][prompt, head, :, : len(columns)] += paid

    def maps(self, size: tuple[int, int]) -> Tensor:
        """Return the maps (prompts, columns, height, width); those of coarser layers are resized, and clamped at 0."""
        if not self._sums:
            raise UntestableError("its attention does not run by scaled_dot_product_attention")
        total, heads = torch.zeros(()), 0
        for sums in self._sums.values():
            small, maps = _grid(sums.shape[2], size), sums.transpose(2, 3).cpu()
            maps = maps.unflatten(-1, small)
            if small != size:
                maps = F.interpolate(maps.flatten(0, 1), size=size, mode="bicubic").clamp(min=0)
                maps = maps.unflatten(0, sums.shape[:2])
            total, heads = total + maps.sum(dim=1), heads + sums.shape[1]
        return total / heads

    def relative_bound(self, dtype: torch.dtype) -> float:
        """Return the largest relative difference that rounding can make between two computations of these maps.

        A score of width d has an error of at most (d + 2) u largest_score in float32 (unit u), which is twice that in a
        probability; sums over keys, heads, layers and calls add one u each. Probabilities and their products with
        indicators are rounded in `dtype` by a fused kernel. All of it once for each of the two computations.
        """
        unit, terms = (
            torch.finfo(torch.float32).eps,
            sum(self._count.values()) * next(sums.shape[1] for sums in self._sums.values()),
        )
        bound = 2 * unit * (2 * (self._width + 2) * self._score + self._keys + terms)
        return CUBIC * (bound + (0 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps))


def _grid(pixels: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return height and width of a layer's grid of so many pixels, for a latent of this size."""
    for factor in (1, 2, 4, 8, 16):
        height, width = (-(-side // factor) for side in size)
        if height * width == pixels:
            return height, width
    raise UntestableError(f"{pixels} queries of the image are no grid of a latent of {size[0]}x{size[1]}")
