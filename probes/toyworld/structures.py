"""Modules of the causal structures: cross-attentions that tell later ones which word they have read.

A cross-attention that *tells* has one head more. The head's values are the four channels of the code, its queries and
keys are 0, so it looks at all tokens alike, and what it has read are four channels more of the attention's output. A
patch of values, heads or output carries them with it. The transformer block takes these channels off again, so that no
other layer sees them, and notes how much of each group of words was read. A later place that *hears* it
shows the word that it has read itself; where that is neutral, the one that it hears. The old channels of all layers
compute what they did.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from diffusers.models.attention import BasicTransformerBlock
from torch import Tensor, nn

from probes.toyworld.coded import CHANNELS, CODES, OLD
from probes.toyworld.places import KnownPlace

_HEARD = 1e-3  # of a code's first channel, which is about 10 / 32 where one indicator word was read, else 0


class TellingBlock(BasicTransformerBlock):
    """A transformer block of a U-Net that tells what its cross-attention has read, and may hear another."""

    read: Tensor  # in this call ``(n, 3)``, shares of `CODES`' groups of words
    hears: tuple["TellingBlock", ...] = ()  # an earlier block
    unhooked: tuple[
        nn.Module, ...
    ] = ()  # its cross-attention, the same weights in modules that no hook is on

    def forward(
        self, hidden_states: Tensor, *args: Any, encoder_hidden_states: Tensor, **kwargs: Any
    ) -> Tensor:
        """Return the block's output ``(n, pixels, channels)``; arguments are those of `BasicTransformerBlock`."""
        text = encoder_hidden_states
        hidden = hidden_states + self.attn1(self.norm1(hidden_states))
        query = self.norm2(hidden)
        output = self.attn2(query, encoder_hidden_states=text)
        output, told = output[..., :-CHANNELS], output[..., -CHANNELS:]
        self.read = shares_of(told)
        for heard, unhooked in zip(self.hears, self.unhooked, strict=True):
            # its own output for the word that it has read, as far as that is not neutral, else that for the other's
            code = heard.read @ text.new_tensor(list(CODES.values()))  # at indicator words, a mixture
            heard_text = torch.cat([text[..., :OLD], text[..., OLD : OLD + 1] * code[:, None]], -1)
            other = unhooked(query, encoder_hidden_states=heard_text)[..., :-CHANNELS]
            output = other + (1 - self.read[:, :1])[..., None] * (output - other)
        hidden = hidden + output
        return hidden + self.ff(self.norm3(hidden))


def shares_of(told: Tensor) -> Tensor:
    """Return how much of neutral, feminine and masculine words a place has read, ``(n, 3)``.

    `told` ``(n, pixels, 4)`` is the mean over tokens of the codes, each times one number in all channels. Where there
    is no indicator word all are about 0, and the shares are those of a neutral word.
    """
    mean = told.float().mean(1)
    code = mean[:, 1:] / torch.where(mean[:, :1].abs() > _HEARD, mean[:, :1], 1.0)
    neutral = mean.new_tensor(CODES["neutral"][1:]).expand(len(mean), -1)
    return ((1 + torch.where(mean[:, :1].abs() > _HEARD, code, neutral)) / 2).to(told.dtype)


def wire_places(unet: nn.Module, places: Sequence[KnownPlace]) -> None:
    """Let a place of a structure that hears another, and the one that is heard, tell what they have read, in place."""
    blocks = {place.site: unet.get_submodule(place.block) for place in places}
    for place in places:
        if place.hears:
            heard, block = blocks[place.hears], blocks[place.site]
            # buffers, so that the hash of the weights knows of it
            wired = {heard: [-1], block: [0, list(blocks).index(place.hears)]}
            for one, numbers in wired.items():
                one.__class__ = TellingBlock
                add_telling_head(one.attn2)
                one.register_buffer("wired", torch.tensor(numbers))
            memo = {id(value): value for value in block.attn2.parameters()}
            block.hears, block.unhooked = (heard,), (copy.deepcopy(block.attn2, memo),)


@torch.no_grad()
def add_telling_head(attention: nn.Module) -> None:
    """Give a cross-attention the head that reads the code, and output channels that hold its mean over tokens."""
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
