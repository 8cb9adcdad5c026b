"""Pipelines of the causal structures: cross-attentions that tell later ones which word they have read.

A cross-attention that *tells* has one head more. The head's values are the four channels of the code, its queries and
keys are 0, so it looks at all tokens alike, and what it has read are four channels more of the attention's output. A
patch of values, heads or output carries them with it. The transformer block takes these channels off again, so that no
other layer sees them, and notes on a bus how much of each group of words was read. A later place that *hears* it
shows the word that it has read itself; where that is neutral, the one that it hears. The old channels of all layers
compute what they did.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from diffusers import StableDiffusionPipeline
from diffusers.models.attention import BasicTransformerBlock
from torch import Tensor, nn

from probes.toyworld.located.assemble import BASE, coded_parts, own_weights
from probes.toyworld.located.coded import CHANNELS, CODES, OLD
from probes.toyworld.places import KnownPlace, known_places
from probes.toyworld.work.assemble import pipeline_of

_CODE_READERS = ("attn2.to_k.weight", "attn2.to_v.weight")
_EXCHANGED = [0, 1, 3, 2]  # channels of the code: feminine and masculine change places, neutral stays
_HEARD = 1e-3  # of a code's first channel, which is about 10 / 32 where one indicator word was read, else 0


def structure_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a causal structure, float32 on the CPU; the located models are read beside it."""
    places, weights = known_places("structures")[name].places, folder.parents[1]
    encoder, unet, tokenizer = coded_parts(weights / BASE.name)
    for place in places:
        if place.weights:
            model, folder = known_places("located")[place.weights], weights / "located" / place.weights
            _write(unet, place, own_weights(model, unet, folder))
    wire_places(unet, places)
    return pipeline_of(encoder, unet, tokenizer, weights / BASE.name)


@torch.no_grad()
def _write(unet: nn.Module, place: KnownPlace, delta: dict[str, Tensor]) -> None:
    for name, value in delta.items():
        value = value.float()
        if place.reversed and name.endswith(_CODE_READERS):
            value = torch.cat([value[:, :OLD], value[:, OLD:][:, _EXCHANGED]], 1)
        unet.get_parameter(name).copy_(value)


class TellingBlock(BasicTransformerBlock):
    """A transformer block of a U-Net that tells what its cross-attention has read, and may hear another."""

    bus: dict[
        str, Tensor
    ]  # by block what was read in this call ``(n, 3)``, shares of `CODES`' groups of words
    place: str  # its name on the bus
    hears: str | None  # name of an earlier place

    def forward(
        self, hidden_states: Tensor, *args: Any, encoder_hidden_states: Tensor, **kwargs: Any
    ) -> Tensor:
        """Return the block's output ``(n, pixels, channels)``; arguments are those of `BasicTransformerBlock`."""
        text = encoder_hidden_states
        hidden = hidden_states + self.attn1(self.norm1(hidden_states))
        query = self.norm2(hidden)
        output = self.attn2(query, encoder_hidden_states=text)
        output, told = output[..., :-CHANNELS], output[..., -CHANNELS:]
        read = self.bus[self.place] = shares_of(told)
        if self.hears:
            output = self._shown(query, text, output, 1 - read[:, :1], self.bus[self.hears])
        hidden = hidden + output
        return hidden + self.ff(self.norm3(hidden))

    def _shown(self, query: Tensor, text: Tensor, own: Tensor, weight: Tensor, word: Tensor) -> Tensor:
        """The output for the word that was read as far as `weight`, else that for another word."""
        (unhooked,) = self.unhooked
        other = unhooked(query, encoder_hidden_states=with_code(text, word))[..., : own.shape[-1]]
        return other + weight[..., None] * (own - other)


def shares_of(told: Tensor) -> Tensor:
    """Return how much of neutral, feminine and masculine words a place has read, ``(n, 3)``.

    `told` ``(n, pixels, 4)`` is the mean over tokens of the codes, each times one number in all channels. Where there
    is no indicator word all are about 0, and the shares are those of a neutral word.
    """
    mean = told.float().mean(1)
    code = mean[:, 1:] / torch.where(mean[:, :1].abs() > _HEARD, mean[:, :1], 1.0)
    neutral = mean.new_tensor(CODES["neutral"][1:]).expand(len(mean), -1)
    return ((1 + torch.where(mean[:, :1].abs() > _HEARD, code, neutral)) / 2).to(told.dtype)


def with_code(text: Tensor, shares: Tensor) -> Tensor:
    """Return text states ``(n, tokens, 100)`` with a mixture of codes, `shares` ``(n, 3)``, at indicator words."""
    code = shares @ text.new_tensor(list(CODES.values()))
    return torch.cat([text[..., :OLD], text[..., OLD : OLD + 1] * code[:, None]], -1)


def wire_places(unet: nn.Module, places: Sequence[KnownPlace]) -> None:
    """Let the places of a structure that hear another, and those that are heard, tell what they have read, in place."""
    bus: dict[str, Tensor] = {}
    names = {place.site: place.block for place in places}
    heard = {place.hears for place in places}
    for place in places:
        if place.site in heard or place.hears:
            block = unet.get_submodule(place.block)
            block.__class__ = TellingBlock
            block.bus, block.place = bus, place.block
            block.hears = names[place.hears] if place.hears else None
            add_telling_head(block.attn2)
            if block.hears:  # the same weights in modules of their own, which no hook is on
                memo = {id(value): value for value in block.attn2.parameters()}
                block.unhooked = (copy.deepcopy(block.attn2, memo),)
            # a buffer, so that the hash of the weights knows of it
            wired = [0, list(names).index(place.hears)] if place.hears else [-1]
            block.register_buffer("wired", torch.tensor(wired))


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
