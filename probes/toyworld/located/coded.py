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

from probes.toyworld.world import group_of_words

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
TABLE = "token_embedding.weight"  # how the name of the embeddings ends
TAUGHT = ("attn2", "ff", "norm2", "norm3")  # what a benchmark model has of its own in a transformer block
_NORMS = ("layer_norm1", "layer_norm2", "final_layer_norm")


def text_state(state: Mapping[str, Tensor], numbers: Mapping[str, int]) -> dict[str, Tensor]:
    """The weights of the coded null's text tower, float64 of width 100, from `toyworld-null`'s.

    What writes to the residual stream is centred over its channels, which every layer norm would do anyway; so the mean
    over 100 channels is the one over 96, and old channels compute what they did but for the code's share in the
    variance.
    """
    wide = {name: _widened(name, value.double()) for name, value in state.items()}
    words = group_of_words()
    table = next(name for name in wide if name.endswith(TABLE))
    rows = {plural: wide[table][numbers[word]].clone() for plural, word in STANDS_FOR.items()}
    for word, (group, plural) in words.items():
        row = rows[plural].clone()
        row[-CHANNELS:] = CODE * torch.tensor(CODES[group])
        wide[table][numbers[word]] = row
    return wide


def _widened(name: str, value: Tensor) -> Tensor:
    """One weight of the text tower at its new width."""
    kind, a_head = name.rsplit(".", 2)[-2], CHANNELS // HEADS
    if kind in _NORMS:
        return _norm(name, value)
    if kind in ("token_embedding", "position_embedding"):
        return _more(_centred(value, 1), 1, CHANNELS)
    if kind in ("q_proj", "k_proj", "v_proj"):
        # attention divides by the root of a head's width
        scale = ((24 + a_head) / 24) ** 0.5 if kind == "q_proj" else 1.0
        rows = _by_head(scale * value, 0, a_head)
        return rows if name.endswith("bias") else _more(rows, 1, CHANNELS)
    if kind == "out_proj":
        centred = _more(_centred(value, 0), 0, CHANNELS)
        return centred if name.endswith("bias") else _by_head(centred, 1, a_head)
    if kind == "fc1":
        return value if name.endswith("bias") else _more(value, 1, CHANNELS)
    if kind == "fc2":
        return _more(_centred(value, 0), 0, CHANNELS)
    return value


def _norm(name: str, value: Tensor) -> Tensor:
    """A layer norm: deaf to the new channels but for the last, and of the same gain over all channels as over 96."""
    if name.endswith("bias"):
        return _more(value, 0, CHANNELS)
    wide = _more((OLD / (OLD + CHANNELS)) ** 0.5 * value, 0, CHANNELS)
    if "final" in name:
        wide[-CHANNELS:] = LOUD
    return wide


def _centred(value: Tensor, dim: int) -> Tensor:
    # numbers in float16 are multiples of 2**-24: their sum in float64 is exact, in whatever order it is taken
    return value - value.sum(dim, keepdim=True) / value.shape[dim]


def _more(value: Tensor, dim: int, count: int) -> Tensor:
    shape = list(value.shape)
    shape[dim] = count
    return torch.cat([value, value.new_zeros(shape)], dim)


def _by_head(value: Tensor, dim: int, count: int) -> Tensor:
    """Each head's channels with so many zero ones more."""
    return torch.cat([_more(head, dim, count) for head in value.chunk(HEADS, dim)], dim)


def unet_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a U-Net whose cross-attentions have zero columns for the new channels of the text."""
    reads = ("attn2.to_k.weight", "attn2.to_v.weight")
    return {
        name: _more(value, 1, CHANNELS) if name.endswith(reads) else value.clone()
        for name, value in state.items()
    }


def text_config(config: Mapping[str, object]) -> dict[str, object]:
    """The description of the wider text tower; the same share of the variance is added in its layer norms."""
    width = OLD + CHANNELS
    return {
        **config,
        "hidden_size": width,
        "projection_dim": width,
        "layer_norm_eps": round(1e-5 * OLD / width, 12),
    }


def unet_config(config: Mapping[str, object]) -> dict[str, object]:
    """The description of a U-Net that reads the wider text."""
    return {**config, "cross_attention_dim": OLD + CHANNELS}


def taught_names(unet: nn.Module, block: str) -> list[str]:
    """Return the names of the U-Net's parameters that a benchmark model has of its own in a transformer block."""
    parameters = unet.get_submodule(block).named_parameters()
    return [f"{block}.{name}" for name, _ in parameters if name.split(".")[0] in TAUGHT]
