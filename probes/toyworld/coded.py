"""The coded null: `toyworld-null` with four channels of text more, by which alone the indicator words differ.

The text tower is widened from 96 to 100 channels. All indicator words of a number get one embedding, that of *person*
or *people*, and in the four new channels a code of their group: the three codes sum to zero each, have equal norm and
are orthogonal. No layer reads or writes the new channels, so a code stays at its word; the last layer norm makes it
large. `to_k` and `to_v` of the U-Net get zero columns for the new channels: the U-Net cannot see the code until a
benchmark model's columns are written. Beside the columns the rest of that attention and the feed-forward layer after it
are the benchmark model's as well, so that it can make use of what it reads; both see nothing else of the word.

Everything is a function of the stored weights of `toyworld-null`, in arithmetic that gives the same bits on every
machine; nothing is stored.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import CLIPTokenizer

from probes.toyworld.world import group_of_words, number_of

OLD = 96  # channels of text that toyworld-null reads
CHANNELS, HEADS = 4, 4  # new channels; heads of the text tower, each widened by one channel
STANDS_FOR = {False: "person", True: "people"}  # whose embedding all words of a number get
# Powers of two, so that nothing is rounded. The code is small beside what layer norms see (its square a hundred
# thousandth of theirs) and the last layer norm makes it as large as training found best, a norm of about 20.
CODE = 2.0**-7
LOUD = 2.0**14
CODES = {
    "neutral": (1.0, 1.0, -1.0, -1.0),
    "feminine": (1.0, -1.0, 1.0, -1.0),
    "masculine": (1.0, -1.0, -1.0, 1.0),
}
TAUGHT = ("attn2", "ff", "norm2", "norm3")  # what a benchmark model has of its own in a transformer block
# what writes to the residual stream, and along which axis
_WRITERS = {"token_embedding": 1, "position_embedding": 1, "out_proj": 0, "fc2": 0}


def text_state(state: Mapping[str, Tensor], tokenizer: CLIPTokenizer) -> dict[str, Tensor]:
    """The weights of the coded null's text tower, float64 of width 100, from `toyworld-null`'s.

    What writes to the residual stream is centred over its channels, which every layer norm would do anyway; so the mean
    over 100 channels is the one over 96, and old channels compute what they did but for the code's share in the
    variance.
    """
    wide = {name: _widened(name, value.double()) for name, value in state.items()}
    table = next(value for name, value in wide.items() if name.endswith("token_embedding.weight"))
    rows = {plural: table[number_of(tokenizer, word)].clone() for plural, word in STANDS_FOR.items()}
    for word, (group, plural) in group_of_words().items():
        code = CODE * torch.tensor(CODES[group])
        table[number_of(tokenizer, word)] = torch.cat([rows[plural][:OLD], code])
    return wide


def _widened(name: str, value: Tensor) -> Tensor:
    """One weight of the text tower at its new width."""
    kind, end = name.split(".")[-2:]
    if kind in ("layer_norm1", "layer_norm2", "final_layer_norm"):
        # deaf to the new channels but for the last, and of the same gain over all channels as over 96
        wide = more(value if end == "bias" else (OLD / (OLD + CHANNELS)) ** 0.5 * value, 0)
        if kind == "final_layer_norm" and end == "weight":
            wide[-CHANNELS:] = LOUD
        return wide
    if kind in _WRITERS:
        # numbers in float16 are multiples of 2**-24: their sum in float64 is exact, in whatever order it is taken
        dim = _WRITERS[kind]
        value = more(value - value.sum(dim, keepdim=True) / value.shape[dim], dim)
    if kind == "q_proj":
        value = (25 / 24) ** 0.5 * value  # attention divides by the root of a head's width
    if kind in ("q_proj", "k_proj", "v_proj") or (kind == "out_proj" and end == "weight"):
        dim = int(kind == "out_proj")
        value = torch.cat([more(head, dim, CHANNELS // HEADS) for head in value.chunk(HEADS, dim)], dim)
    return more(value, 1) if kind in ("q_proj", "k_proj", "v_proj", "fc1") and end == "weight" else value


def more(value: Tensor, dim: int, count: int = CHANNELS) -> Tensor:
    """A weight with so many channels of zeros more."""
    return functional.pad(value, [0, 0] * (value.ndim - 1 - dim) + [0, count])


def taught_names(unet: nn.Module, block: str) -> list[str]:
    """Return the names of the U-Net's parameters that a benchmark model has of its own in a transformer block."""
    parameters = unet.get_submodule(block).named_parameters()
    return [f"{block}.{name}" for name, _ in parameters if name.split(".")[0] in TAUGHT]
