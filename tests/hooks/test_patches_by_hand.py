"""Patches of every layout against the same written by hand, to the bit: where they go is said here, in PyTorch's terms.

Keys and values of the text are exchanged in a replacement of PyTorch's attention, streams and layers of text encoders
in forward hooks, the pooled text in the transformer's arguments. Copies are exact on both sides, so images are equal.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hooks import Intervention, Patch
from tests.hooks.transformers import draw, rows_of_prompts, streams, tiers
from tests.tiny_transformers import KINDS

DONOR, RECIPIENT = 1, 2
SWAP = {"source": DONOR, "into": RECIPIENT}
PROMPTS = ["a person in the park", "a woman in the park", "a man in the park"]  # of as many tokens each
# guidance runs in a second call of the transformer, behind that of the prompts
SECOND_CALLS = ("qwen-image", "lumina2", "chroma", "ovis-image", "flux2-klein", "longcat-image", "krea2")
SECOND_CALLS += ("cogview4",)
TOKENS = {"sana": 256, "sana-sprint": 256}  # of the image; 64 of all others
# the layers of each text encoder
TOWERS = (
    ("sd3", "text", "text_encoder.text_model.encoder.layers"),
    ("sd3", "text_2", "text_encoder_2.text_model.encoder.layers"),
    ("sd3", "text_3", "text_encoder_3.encoder.block"),
    ("flux-dev", "text", "text_encoder.encoder.layers"),
    ("sana", "text", "text_encoder.layers"),
)


@dataclass(frozen=True)
class Block:
    """One block: its path in the transformer, its attention to the text, and what it returns.

    `returns` has the number of each stream in the tuple, or is None where the block returns both in one sequence.
    """

    site: str
    path: str
    attention: str = "attn"
    returns: dict[str, int] | None = None


APART, IMAGE = {"text": 0, "image": 1}, {"image": 0}
DOUBLE = Block("dit.block.1", "transformer_blocks.1", returns=APART)
SINGLE = Block("dit.single.1", "single_transformer_blocks.1")
CROSS = Block("dit.block.1", "transformer_blocks.1", "attn2", IMAGE)
FLUX = (DOUBLE, Block("dit.single.1", "single_transformer_blocks.1", returns=APART))
COGVIEW = Block("dit.block.1", "transformer_blocks.1", "attn1", {"image": 0, "text": 1})
BLOCKS = {
    "sd3": (DOUBLE,),
    "sd35": (DOUBLE,),
    "flux-dev": FLUX,
    "flux-schnell": FLUX,
    "pixart-alpha": (CROSS,),
    "pixart-sigma": (CROSS,),
    "sana": (CROSS,),
    "sana-sprint": (CROSS,),
    "qwen-image": (DOUBLE,),
    "lumina2": (Block("dit.single.1", "layers.1"),),
    "z-image": (Block("dit.single.1", "layers.1", "attention"),),
    "auraflow": (  # of two blocks of each kind: behind the last the text is read no more
        Block("dit.block.1", "joint_transformer_blocks.1", returns=APART),
        Block("dit.single.0", "single_transformer_blocks.0"),
    ),
    "chroma": (DOUBLE, SINGLE),
    "ovis-image": FLUX,
    "cogview3": (COGVIEW,),
    "hunyuan-dit": (Block("dit.block.1", "blocks.1", "attn2", IMAGE),),
    "cogview4": (COGVIEW,),
    "flux2-klein": (DOUBLE, SINGLE),
    "longcat-image": FLUX,
    "krea2": (Block("dit.single.1", "transformer_blocks.1"),),
}
QUICK = ("sd3", "flux-dev", "sana")  # of the three ways in which a block takes the text; the others are slow


EACH_BLOCK = [(kind, block) for kind in KINDS for block in BLOCKS[kind]]
NAMES = [f"{kind}-{block.site}" for kind, block in EACH_BLOCK]


def exchanged(pipe: Any, values: Tensor, where: slice = slice(None)) -> Tensor:
    """Of a batch of all branches, the donor's row of the prompts in the place of the recipient's."""
    values = values.clone()
    rows = rows_of_prompts(pipe, values, len(PROMPTS))
    rows[RECIPIENT, ..., where, :] = rows[DONOR, ..., where, :]
    return values


def places(kind: str, pipe: Any, query: Tensor, key: Tensor) -> tuple[slice, slice]:
    """Positions of the image among the queries and of the text among the keys, the same in each row."""
    found = streams(pipe, {"query": query, "key": key}, TOKENS.get(kind, 64), PROMPTS)
    assert all(one == found[0] for one in found)
    image, text = found[0]
    if kind == "z-image":  # which pads the text; what pads it has read it
        text = slice(text.start, text.start + -(-(text.stop - text.start) // 32) * 32)
    return image, text


@contextlib.contextmanager
def hooked(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


class PromptCalls:
    """Says whether the transformer's call under way is that of the prompts."""

    def __init__(self, pipe: Any, kind: str) -> None:
        self.count, self.two = 0, kind in SECOND_CALLS
        self.handle = pipe.transformer.register_forward_pre_hook(self._count)

    def _count(self, module: Any, args: Any) -> None:
        self.count += 1

    def __bool__(self) -> bool:
        return not self.two or self.count % 2 == 1


def by_hand(pipe: Any, kind: str, module: Any, change: Callable[[Any], Any]) -> Any:
    """Images where `change` makes another output of a module of the transformer, in the calls of the prompts."""
    calls = PromptCalls(pipe, kind)
    hook = module.register_forward_hook(lambda m, args, output: change(output) if calls else None)
    with hooked(calls.handle), hooked(hook):
        return draw(pipe, kind, PROMPTS)


@pytest.fixture(scope="module")
def check(dit) -> Callable[[str, Patch, Any], None]:
    """Compares images of a patch with those made by hand, and with those of no patch."""
    plain = functools.cache(lambda kind: draw(dit(kind), kind, PROMPTS))

    def compare(kind: str, patch: Patch, expected: Any) -> None:
        with Intervention(dit(kind), [patch]) as intervention:
            images = draw(dit(kind), kind, PROMPTS)
        assert np.array_equal(images, expected), patch
        assert np.array_equal(images[:RECIPIENT], plain(kind)[:RECIPIENT])
        assert not np.array_equal(images[RECIPIENT], plain(kind)[RECIPIENT])
        assert intervention.written[0].largest_change > 0

    return compare


@pytest.mark.parametrize(("kind", "block"), tiers(EACH_BLOCK, QUICK), ids=NAMES)
def test_keys_and_values_of_the_text(dit, check, kind, block, monkeypatch):
    """Against final keys and values, behind norms and rotary positions, as PyTorch's attention is given them."""
    pipe = dit(kind)
    attention = attrgetter(f"{block.path}.{block.attention}")(pipe.transformer)
    plain, inside, found = torch.nn.functional.scaled_dot_product_attention, [], []
    calls = PromptCalls(pipe, kind)

    def attend(query: Tensor, key: Tensor, value: Tensor, *more: Any, **named: Any) -> Tensor:
        if inside and calls:
            _, text = places(kind, pipe, query, key)
            found.append(len(range(*text.indices(key.shape[-2]))))
            key, value = (exchanged(pipe, one, text) for one in (key, value))
        return plain(query, key, value, *more, **named)

    before = attention.register_forward_pre_hook(lambda m, args: inside.append(True))
    after = attention.register_forward_hook(lambda m, args, output: inside.clear())
    with hooked(calls.handle), hooked(before), hooked(after), monkeypatch.context() as context:
        context.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
        expected = draw(pipe, kind, PROMPTS)
    assert len(found) == 2 and min(found) >= len(PROMPTS[0].split())  # once a step
    site = f"{block.site}.cross" if block.attention == "attn2" else f"{block.site}.joint.text"
    check(kind, Patch(site, part=("key", "value"), **SWAP), expected)


EACH_STREAM = [(kind, block, stream) for kind, block in EACH_BLOCK for stream in block.returns or APART]


@pytest.mark.parametrize(
    ("kind", "block", "stream"),
    tiers(EACH_STREAM, QUICK),
    ids=[f"{kind}-{block.site}-{name}" for kind, block, name in EACH_STREAM],
)
def test_streams_behind_a_block(dit, check, kind, block, stream):
    pipe = dit(kind)

    def change(output: Any) -> Any:
        if block.returns == IMAGE:
            return exchanged(pipe, output)
        if block.returns is None:  # both in one sequence
            where = places(kind, pipe, output, output)
            return exchanged(pipe, output, where[("image", "text").index(stream)])
        registers = slice(8 if kind == "auraflow" and stream == "text" else 0, None)
        number = block.returns[stream]
        return tuple(
            exchanged(pipe, one, registers) if element == number else one
            for element, one in enumerate(output)
        )

    check(
        kind,
        Patch(f"{block.site}.{stream}", **SWAP),
        by_hand(pipe, kind, attrgetter(block.path)(pipe.transformer), change),
    )


@pytest.mark.parametrize("kind", ["sd3", "flux-dev"])
def test_the_pooled_text(dit, check, kind):
    pipe = dit(kind)

    def change(module: Any, args: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        pooled = named["pooled_projections"].clone()
        rows = pooled[-len(PROMPTS) :]
        rows[RECIPIENT] = rows[DONOR]
        return args, named | {"pooled_projections": pooled}

    with hooked(pipe.transformer.register_forward_pre_hook(change, with_kwargs=True)):
        expected = draw(pipe, kind, PROMPTS)
    check(kind, Patch("text.pooled", **SWAP), expected)


@pytest.mark.parametrize(("kind", "tower", "layers"), TOWERS)
def test_a_layer_of_each_text_encoder(dit, check, kind, tower, layers):
    """The first run of an encoder is that of the prompts; what transformers gathers as hidden states comes after."""
    pipe, runs = dit(kind), []

    def change(module: Any, args: Any, output: Any) -> Any:
        runs.append(True)
        if len(runs) > 1:
            return None
        whole = output if isinstance(output, tuple) else (output,)
        states = whole[0].clone()
        states[RECIPIENT] = states[DONOR]
        return (states, *whole[1:]) if isinstance(output, tuple) else states

    with hooked(attrgetter(layers)(pipe)[1].register_forward_hook(change, prepend=True)):
        expected = draw(pipe, kind, PROMPTS)
    check(kind, Patch(f"{tower}.layers.1", **SWAP), expected)
