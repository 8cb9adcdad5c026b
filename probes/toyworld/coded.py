"""The coded null: `toyworld-null` with four channels of text more, by which alone the indicator words differ.

The text tower is widened from 96 to 100 channels. All indicator words of a number get one embedding, that of *person*
or *people*, and in the four new channels a code of their group: the three codes sum to zero each, have equal norm and
are orthogonal. No layer reads or writes the new channels, so a code stays at its word; the last layer norm makes it
large. `to_k` and `to_v` of the U-Net get zero columns for the new channels: the U-Net cannot see the code until a
benchmark model's columns are written. Beside the columns the rest of that attention and the feed-forward layer after it
are the benchmark model's as well, so that it can make use of what it reads; both see nothing else of the word.

Everything is a function of the stored weights of `toyworld-null`, in arithmetic that gives the same bits on every
machine; nothing is stored.

Of causal structures a cross-attention that *reports* to later ones which word it has read has one head more. The head's
values are the four channels of the code, its queries and keys are 0, so it looks at all tokens alike, and what it has
read are four channels more of the attention's output. A patch of values, heads or output carries them with it. The
transformer block takes these channels off again, so that no other layer sees them, and notes how much of each group of
words was read. A later place that *hears* it shows the word that it has read itself; where that is neutral, the one
that it hears. The old channels of all layers compute what they did.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from diffusers.models.attention import BasicTransformerBlock
from torch import Tensor, nn
from torch.nn import functional
from transformers import CLIPTokenizer

from probes.toyworld.places import KnownPlace
from probes.toyworld.world import group_of_words, token_id

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
_HEARD = 1e-3  # of a code's first channel, which is about 10 / 32 where one indicator word was read, else 0
TAUGHT = ("attn2", "ff", "norm2", "norm3")  # what a benchmark model has of its own in a transformer block
# what writes to the residual stream, and along which axis
_WRITERS = {"token_embedding": 1, "position_embedding": 1, "out_proj": 0, "fc2": 0}


def coded_text_weights(state: Mapping[str, Tensor], tokenizer: CLIPTokenizer) -> dict[str, Tensor]:
    """Return the text-encoder weights of `toyworld-coded-null`, float64 of width 100, from those of `toyworld-null`.

    What writes to the residual stream is centred over its channels, which every layer norm would do anyway; so the mean
    over 100 channels is the one over 96, and old channels compute what they did but for the code's share in the
    variance.
    """
    wide = {name: _widen_weight(name, value.double()) for name, value in state.items()}
    table = next(value for name, value in wide.items() if name.endswith("token_embedding.weight"))
    rows = {plural: table[token_id(tokenizer, word)].clone() for plural, word in STANDS_FOR.items()}
    for word, (group, plural) in group_of_words().items():
        code = CODE * torch.tensor(CODES[group])
        table[token_id(tokenizer, word)] = torch.cat([rows[plural][:OLD], code])
    return wide


def _widen_weight(name: str, value: Tensor) -> Tensor:
    """Return a text-encoder weight padded and rescaled from 96 to 100 channels, as its parameter `name` requires."""
    kind, end = name.split(".")[-2:]
    if kind in ("layer_norm1", "layer_norm2", "final_layer_norm"):
        # deaf to the new channels but for the last, and of the same gain over all channels as over 96
        wide = pad_zeros(value if end == "bias" else (OLD / (OLD + CHANNELS)) ** 0.5 * value, 0)
        if kind == "final_layer_norm" and end == "weight":
            wide[-CHANNELS:] = LOUD
        return wide
    if kind in _WRITERS:
        # numbers in float16 are multiples of 2**-24: their sum in float64 is exact, in whatever order it is taken
        dim = _WRITERS[kind]
        value = pad_zeros(value - value.sum(dim, keepdim=True) / value.shape[dim], dim)
    if kind == "q_proj":
        value = (25 / 24) ** 0.5 * value  # attention divides by the root of a head's width
    if kind in ("q_proj", "k_proj", "v_proj") or (kind == "out_proj" and end == "weight"):
        dim = int(kind == "out_proj")
        value = torch.cat([pad_zeros(head, dim, CHANNELS // HEADS) for head in value.chunk(HEADS, dim)], dim)
    return pad_zeros(value, 1) if kind in ("q_proj", "k_proj", "v_proj", "fc1") and end == "weight" else value


def pad_zeros(value: Tensor, dim: int, count: int = CHANNELS) -> Tensor:
    """Return a weight with `count` channels of zeros appended along dimension `dim`."""
    return functional.pad(value, [0, 0] * (value.ndim - 1 - dim) + [0, count])


def trained_parameter_names(unet: nn.Module, block: str) -> list[str]:
    """Return the names of the parameters in a U-Net's transformer block (a module path) that located models train."""
    parameters = unet.get_submodule(block).named_parameters()
    return [f"{block}.{name}" for name, _ in parameters if name.split(".")[0] in TAUGHT]


class ReportingBlock(BasicTransformerBlock):
    """A U-Net's transformer block that records which group of words it reads, and may use an earlier block's record."""

    read: Tensor  # in this call ``(n, 3)``, shares of `CODES`' groups of words
    hears: tuple["ReportingBlock", ...] = ()  # an earlier block
    unhooked: tuple[
        nn.Module, ...
    ] = ()  # its cross-attention, the same weights in modules that no hook is on

    def forward(
        self, hidden_states: Tensor, *args: Any, encoder_hidden_states: Tensor, **kwargs: Any
    ) -> Tensor:
        """Return the block's output ``(n, pixels, channels)``, and record in `read` which words it has read."""
        text = encoder_hidden_states
        hidden = hidden_states + self.attn1(self.norm1(hidden_states))
        query = self.norm2(hidden)
        output = self.attn2(query, encoder_hidden_states=text)
        output, mean_codes = output[..., :-CHANNELS], output[..., -CHANNELS:]
        self.read = group_shares(mean_codes)
        for heard, unhooked in zip(self.hears, self.unhooked, strict=True):
            # its own output for the word that it has read, as far as that is not neutral, else that for the other's
            code = heard.read @ text.new_tensor(list(CODES.values()))  # at indicator words, a mixture
            heard_text = torch.cat([text[..., :OLD], text[..., OLD : OLD + 1] * code[:, None]], -1)
            other = unhooked(query, encoder_hidden_states=heard_text)[..., :-CHANNELS]
            output = other + (1 - self.read[:, :1])[..., None] * (output - other)
        hidden = hidden + output
        return hidden + self.ff(self.norm3(hidden))


def group_shares(mean_codes: Tensor) -> Tensor:
    """Return the shares of neutral, feminine and masculine words, ``(n, 3)``, in mean word codes ``(n, pixels, 4)``.

    `mean_codes` are a cross-attention's mean over tokens of the codes, each times one number in all channels. Where
    there is no indicator word all are about 0, and the shares are those of a neutral word.
    """
    mean = mean_codes.float().mean(1)
    code = mean[:, 1:] / torch.where(mean[:, :1].abs() > _HEARD, mean[:, :1], 1.0)
    neutral = mean.new_tensor(CODES["neutral"][1:]).expand(len(mean), -1)
    return ((1 + torch.where(mean[:, :1].abs() > _HEARD, code, neutral)) / 2).to(mean_codes.dtype)


def wire_places(unet: nn.Module, places: Sequence[KnownPlace]) -> None:
    """Turn the U-Net blocks of `places` that report to another place, or hear one, into `ReportingBlock`, in place."""
    blocks = {place.site: unet.get_submodule(place.block) for place in places}
    for place in places:
        if place.hears:
            heard, block = blocks[place.hears], blocks[place.site]
            # buffers, so that the hash of the weights knows of it
            wired = {heard: [-1], block: [0, list(blocks).index(place.hears)]}
            for one, numbers in wired.items():
                one.__class__ = ReportingBlock
                add_code_head(one.attn2)
                one.register_buffer("wired", torch.tensor(numbers))
            memo = {id(value): value for value in block.attn2.parameters()}
            block.hears, block.unhooked = (heard,), (copy.deepcopy(block.attn2, memo),)


@torch.no_grad()
def add_code_head(attention: nn.Module) -> None:
    """Add, in place, a head to a cross-attention that outputs the mean over tokens of the codes of their words."""
    channels, inner = attention.to_out[0].out_features, attention.to_q.out_features
    head = inner // attention.heads
    for name in ("to_q", "to_k", "to_v"):
        linear = nn.Linear(getattr(attention, name).in_features, inner + head, bias=False)
        linear.weight.zero_()
        linear.weight[:inner] = getattr(attention, name).weight
        if name == "to_v":
            linear.weight[inner : inner + CHANNELS, OLD:] = torch.eye(CHANNELS)
        setattr(attention, name, linear)
    output, old = nn.Linear(inner + head, channels + CHANNELS), attention.to_out[0]
    output.weight.zero_()
    output.bias.zero_()
    output.weight[:channels, :inner], output.bias[:channels] = old.weight, old.bias
    output.weight[channels:, inner : inner + CHANNELS] = torch.eye(CHANNELS)
    attention.to_out[0] = output
    attention.heads += 1
    attention.inner_dim, attention.inner_kv_dim = inner + head, inner + head
