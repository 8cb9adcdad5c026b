"""Word maps by an eager softmax in float32, without a probe: what `triptych verify` compares word maps with.

PyTorch's attention is listened to while the pipeline generates, so queries and keys are those that the model ends up
with. Where image and text stand among them is found by experiment, in the first layer of the first step, and not by
what `hooks` knows of a family: queries that another noise changes are the image's, keys that other text states change
are the text's, and rows of the batch that have such keys are those of the prompts.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CUBIC = 1.375**2  # largest sum of absolute weights of torch's bicubic interpolation in two dimensions
# of a prompt: call of a layer within a step, row, the image's queries (None: all) and the text's keys, by position
Place = tuple[int, int, Tensor | None, Tensor]


class UntestableError(Exception):
    """A check that cannot be made on this model or machine; the message is the reason."""


@contextlib.contextmanager
def listening(modules: Mapping[str, Any], receive: Callable[..., None]) -> Iterator[None]:
    """Call `receive` with a module's address and query, key, mask and scale of each attention in it."""
    plain, running = F.scaled_dot_product_attention, list[str]()

    def listen(*args: Any, **kwargs: Any) -> Tensor:
        """Return PyTorch's attention, after `receive` was given its arguments."""
        if running:
            given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)) | kwargs
            query, key, mask = given["query"], given["key"], given.get("attn_mask")
            if given.get("is_causal"):
                mask = torch.ones(
                    query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device
                ).tril()
            receive(running[-1], query, key, mask, given.get("scale") or query.shape[-1] ** -0.5)
        return plain(*args, **kwargs)

    with contextlib.ExitStack() as stack:
        for address, module in modules.items():
            begin = module.register_forward_pre_hook(lambda *args, address=address: running.append(address))
            end = module.register_forward_hook(lambda *args: running.clear())
            stack.callback(begin.remove)
            stack.callback(end.remove)
        stack.enter_context(replaced(F, "scaled_dot_product_attention", listen))
        yield


@contextlib.contextmanager
def replaced(target: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Put a function in the place of a method of one object, or of a function of a module."""
    before = vars(target).get(name)
    vars(target)[name] = function
    try:
        yield
    finally:
        vars(target).pop(name) if before is None else vars(target).update({name: before})


def other_text_states(pipe: Any) -> contextlib.AbstractContextManager[None]:
    """Within the context, add noise to the prompts' states that `encode_prompt` returns, at every position."""
    encode, texts, noise = pipe.encode_prompt, list[Any](), torch.Generator().manual_seed(1)

    def change(states: Any) -> Any:
        """Return states, or a list of them, with noise added."""
        if isinstance(states, list | tuple):
            return type(states)(map(change, states))
        return states + (torch.randn(states.shape, generator=noise) * float(states.float().std())).to(states)

    def encode_prompt(*args: Any, **kwargs: Any) -> Any:
        """Return what the pipeline's method does; of calls with the prompts, as the first, with other states."""
        result = encode(*args, **kwargs)
        texts.append(kwargs.get("prompt", args[0] if args else None))
        return (change(result[0]), *result[1:]) if texts[-1] == texts[0] else result

    return replaced(pipe, "encode_prompt", encode_prompt)


def find_places(pipe: Any, layer: Any, generate: Callable[..., Any], prompts: int) -> tuple[list[Place], int]:
    """Return the place of each prompt and a layer's calls in a step, by three generations."""

    def first_step(**more: Any) -> list[tuple[Tensor, Tensor]]:
        """Return queries and keys of the layer's calls in the first step."""
        entries, steps, step = list[tuple[Tensor, Tensor]](), list[int](), pipe.scheduler.step

        @functools.wraps(step)  # pipelines ask which arguments it takes
        def end_step(*args: Any, **kwargs: Any) -> Any:
            steps.append(1)
            return step(*args, **kwargs)

        def receive(address: str, query: Tensor, key: Tensor, *more: Any) -> None:
            if not steps:
                entries.append((query, key))

        with listening({"": layer}, receive), replaced(pipe.scheduler, "step", end_step):
            generate(**more)
        return entries

    plain, noise = first_step(), first_step(seeds=[*range(1000, 1000 + prompts)])
    with other_text_states(pipe):
        texts = first_step()
    places = list[Place]()
    for number, (one, other, text) in enumerate(zip(plain, noise, texts, strict=True)):
        image = (one[0] != other[0]).any(dim=3).any(dim=1)
        words = (one[1] != text[1]).any(dim=3).any(dim=1)
        if torch.equal(one[1], other[1]):  # all keys are the text's, also those that stand for padding
            words |= words.any(dim=1, keepdim=True)
        places += [
            (
                number,
                row,
                None if image[row].all() else image[row].nonzero()[:, 0],
                words[row].nonzero()[:, 0],
            )
            for row in range(len(image))
            if image[row].any() and words[row].any()
        ]
    if len(places) != prompts:
        raise UntestableError(
            f"{len(places)} rows of the first attention depend on noise and text of {prompts} prompts"
        )
    return places, len(plain)


class EagerMaps:
    """Word maps as the sum over steps of the mean over heads and layers, by an eager softmax over all keys.

    `columns` are by prompt the positions of the text that have a map.
    """

    def __init__(self, places: tuple[list[Place], int], columns: Sequence[Sequence[int]]) -> None:
        (self._places, self._calls), self._columns = places, columns
        self._sums: dict[str, Tensor] = {}  # (prompts, heads, pixels, columns)
        self._count, self._score, self._width, self._keys = Counter[str](), 0.0, 0, 0

    def receive(self, address: str, query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> None:
        """Add one call of a layer's attention."""
        (rows, heads, queries, self._width), self._keys = query.shape, key.shape[2]
        number = self._count[address] % self._calls
        self._count[address] += 1
        norms = [float(values.float().norm(dim=-1).max()) for values in (query, key)]
        self._score = max(self._score, scale * norms[0] * norms[1])
        mask = None if mask is None else mask.expand(rows, heads, queries, self._keys)
        for prompt, (call, row, image, text) in enumerate(self._places):
            if call != number:
                continue
            pixels = torch.arange(queries, device=text.device) if image is None else image
            columns = text[list(self._columns[prompt])]
            shape = (len(self._columns), heads, len(pixels), max(map(len, self._columns)))
            total = self._sums.setdefault(address, torch.zeros(shape, device=text.device))
            for head in range(heads):
                scores = (
                    query[row, head, pixels].float()
                    @ key[row, head * key.shape[1] // heads].float().T
                    * scale
                )
                if mask is not None:
                    own = mask[row, head, pixels]
                    scores = (
                        scores.masked_fill(~own, -torch.inf)
                        if own.dtype == torch.bool
                        else scores + own.float()
                    )
                total[prompt, head, :, : len(columns)] += scores.softmax(dim=-1)[:, columns]

    def maps(self, size: tuple[int, int]) -> Tensor:
        """Return the maps (prompts, columns, height, width); those of coarser layers are resized, and clamped at 0."""
        if not self._sums:
            raise UntestableError("its attention does not run by scaled_dot_product_attention")
        total, heads = torch.zeros(()), 0
        for sums in self._sums.values():
            grids = [tuple(-(-side // factor) for side in size) for factor in (1, 2, 4, 8, 16)]
            small = next(grid for grid in grids if grid[0] * grid[1] == sums.shape[2])
            maps = sums.cpu().transpose(2, 3).unflatten(-1, small)
            if small != size:
                maps = F.interpolate(maps.flatten(0, 1), size=size, mode="bicubic").clamp(min=0)
                maps = maps.unflatten(0, sums.shape[:2])
            total, heads = total + maps.sum(dim=1), heads + sums.shape[1]
        return total / heads

    def relative_bound(self, dtype: torch.dtype) -> float:
        """Return the largest relative difference that rounding can make between two computations of these maps.

        A score of width d has an error of at most (d + 2) u s in float32 (unit u, largest score s), and a probability
        twice that, relatively; sums over keys, heads, layers and calls add one u each. A fused kernel rounds
        probabilities and their products with indicators in `dtype`. All of it once for each of the two computations.
        """
        terms = self._keys + sum(self._count.values()) * next(iter(self._sums.values())).shape[1]
        bound = 2 * torch.finfo(torch.float32).eps * (2 * (self._width + 2) * self._score + terms)
        return CUBIC * (bound + (0 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps))
