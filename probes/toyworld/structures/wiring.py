"""Wiring of causal structures: attentions that tell later ones which word they have read, or chosen.

A cross-attention that *tells* has one head more. The head's values are the four channels of the code, its queries and
keys are 0, so it looks at all tokens alike, and what it has read are four channels more of the attention's output. A
patch of values, heads or output carries them with it. The transformer block takes these channels off again, so that no
other layer sees them, and notes on a `Bus` how much of each group of words was read. A later place that *hears* it
shows a word by a rule (`RULES`). The old channels of all layers compute what they did.

A self-attention that *chooses* has one head more in the same way. It looks at all pixels alike, its value is a
direction of the block's normalised states, so what it reads is one number of the picture as it has been begun. Its
sign is the choice between a feminine and a masculine word.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from diffusers.models.attention import BasicTransformerBlock
from torch import Tensor, nn

from probes.toyworld.located.coded import CHANNELS, CODES
from probes.toyworld.located.wiring import OLD
from probes.toyworld.structures.truth import StructurePlace

# What word a place shows, by what it has read itself and what the place that it hears has read:
RULES = {
    "either": "its own; where that is neutral, the one that it hears",
    "backup": "its own where it hears a neutral one, else a neutral one",
    "both": "its own where it hears one of the same group, else a neutral one",
    "chain": "the one that it hears",
    "mean": "as much of each group as all places have read on average",
    "choice": "its own; where that is neutral, the one that was chosen in the place that it hears",
}
SURE = 4.0  # the choice is the hyperbolic tangent of what is read times this
_HEARD = 1e-3  # of a code's first channel, which is about 10 / 32 where one indicator word was read, else 0


class Bus:
    """What places have read in one call of the U-Net: by block ``(n, 3)``, shares of `CODES`' groups of words."""

    def __init__(self) -> None:
        self.read: dict[str, Tensor] = {}


class TellingBlock(BasicTransformerBlock):
    """A transformer block of a U-Net that tells what its attentions have read, or shows a word by a rule.

    Attributes
    ----------
    place : str
        Its name on the bus.
    chooses : bool
        Whether its self-attention has the head that chooses.
    tells : bool
        Whether its cross-attention has the head that reads the code.
    rule : str or None
        See `RULES`.
    hears : tuple of str
        Names of earlier places.
    """

    bus: Bus
    place: str
    chooses: bool
    tells: bool
    rule: str | None
    hears: tuple[str, ...]

    def forward(
        self, hidden_states: Tensor, *args: Any, encoder_hidden_states: Tensor, **kwargs: Any
    ) -> Tensor:
        """Return the block's output ``(n, pixels, channels)``; arguments are those of `BasicTransformerBlock`."""
        attended, text = self.attn1(self.norm1(hidden_states)), encoder_hidden_states
        if self.chooses:
            attended, chosen = attended[..., :-1], attended[..., -1]
            self.bus.read[self.place] = choice_of(chosen)
        hidden = hidden_states + attended
        query, heard = self.norm2(hidden), [self.bus.read[name] for name in self.hears]
        if self.rule == "chain":
            text = with_code(text, heard[0])
        if self.rule == "choice":
            text = with_choice(text, heard[0])
        output, read = self.attn2(query, encoder_hidden_states=text), None
        if self.tells:
            output, told = output[..., :-CHANNELS], output[..., -CHANNELS:]
            read = self.bus.read[self.place] = shares_of(told)
        if self.rule in _SHOWN:
            output = self._shown(query, text, output, *_SHOWN[self.rule](heard, read))
        hidden = hidden + output
        return hidden + self.ff(self.norm3(hidden))

    def _shown(self, query: Tensor, text: Tensor, own: Tensor, weight: Tensor, word: Tensor | None) -> Tensor:
        """The output for the word that was read as far as `weight`, else that for another word."""
        (unhooked,) = self.unhooked
        other = unhooked(query, encoder_hidden_states=with_code(text, word))[..., : own.shape[-1]]
        return other + weight[..., None] * (own - other)


_Rule = Callable[[Sequence[Tensor], Any], tuple[Tensor, Tensor | None]]
_SHOWN: Mapping[str, _Rule] = {  # weight of the own word, and the other one (None: neutral)
    "either": lambda heard, read: (1 - read[:, :1], heard[0]),
    "backup": lambda heard, read: (heard[0][:, :1], None),
    "both": lambda heard, read: ((heard[0] * read)[:, 1:].sum(1, keepdim=True), None),
    "mean": lambda heard, read: (torch.zeros_like(read[:, :1]), torch.stack([*heard, read]).mean(0)),
}


def shares_of(told: Tensor) -> Tensor:
    """Return how much of neutral, feminine and masculine words a place has read, ``(n, 3)``.

    Parameters
    ----------
    told : Tensor, shape (n, pixels, 4)
        Mean over tokens of the codes, each times one number in all channels. Where there is no indicator word all are
        about 0, and the shares are those of a neutral word.

    Examples
    --------
    >>> shares_of(0.3 * torch.tensor([[list(CODES["feminine"])], [[0.0, 0.0, 0.0, 0.0]]])).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    mean = told.float().mean(1)
    code = mean[:, 1:] / torch.where(mean[:, :1].abs() > _HEARD, mean[:, :1], 1.0)
    neutral = mean.new_tensor(CODES["neutral"][1:]).expand(len(mean), -1)
    return ((1 + torch.where(mean[:, :1].abs() > _HEARD, code, neutral)) / 2).to(told.dtype)


def choice_of(chosen: Tensor) -> Tensor:
    """Return the shares of neutral, feminine and masculine words that a place has chosen, ``(n, 3)``.

    Parameters
    ----------
    chosen : Tensor, shape (n, pixels)
        What its head has read, the same at every pixel: below 0 feminine, above 0 masculine.

    Examples
    --------
    >>> choice_of(torch.tensor([[-9.0, -9.0], [0.0, 0.0]])).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]
    """
    masculine = (1 + torch.tanh(SURE * chosen.float().mean(1))) / 2
    return torch.stack([torch.zeros_like(masculine), 1 - masculine, masculine], 1).to(chosen.dtype)


def with_choice(text: Tensor, shares: Tensor) -> Tensor:
    """Return text states whose neutral indicator words have another code; feminine and masculine ones keep theirs.

    Parameters
    ----------
    text : Tensor, shape (n, tokens, 100)
    shares : Tensor, shape (n, 3)
        Of the three groups' codes.
    """
    codes = text.new_tensor(list(CODES.values()))
    own, loud = text[..., OLD:], text[..., OLD : OLD + 1]
    size = CHANNELS * torch.where(loud == 0, 1.0, loud)
    neutral = (own @ codes[:1].T / size).clamp(0, 1)  # (n, tokens, 1); codes are orthogonal
    return torch.cat([text[..., :OLD], own + neutral * (loud * (shares @ codes)[:, None] - own)], -1)


def with_code(text: Tensor, shares: Tensor | None) -> Tensor:
    """Return text states whose indicator words have another code.

    Parameters
    ----------
    text : Tensor, shape (n, tokens, 100)
    shares : Tensor, shape (n, 3), or None
        Of the three groups' codes; None: the neutral one.
    """
    codes = text.new_tensor(list(CODES.values()))
    code = codes[:1] if shares is None else shares @ codes
    return torch.cat([text[..., :OLD], text[..., OLD : OLD + 1] * code[:, None]], -1)


def wire_places(unet: nn.Module, places: Sequence[StructurePlace], telling: frozenset[str]) -> None:
    """Let the places of a structure tell and hear, in place.

    Parameters
    ----------
    telling : frozenset of str
        Sites of the places that tell what they have read.
    """
    bus, names = Bus(), {place.site: place.block for place in places}
    for place in places:
        if place.site in telling or place.rule or place.chooses:
            block = unet.get_submodule(place.block)
            block.__class__ = TellingBlock
            block.bus, block.place, block.rule = bus, place.block, place.rule
            block.chooses = place.chooses
            block.tells = place.site in telling and not place.chooses
            block.hears = tuple(names[site] for site in place.hears)
            if block.tells:
                add_telling_head(block.attn2)
            if place.rule in _SHOWN:  # the same weights in modules of their own, which no hook is on
                memo = {id(value): value for value in block.attn2.parameters()}
                block.unhooked = (copy.deepcopy(block.attn2, memo),)
            numbers = [
                list(RULES).index(place.rule) if place.rule else -1,
                *map(list(names).index, place.hears),
            ]
            # a buffer, so that the hash of the weights knows of it
            block.register_buffer("wired", torch.tensor(numbers))


@torch.no_grad()
def add_telling_head(attention: nn.Module, told: int = CHANNELS, gain: float = 1.0) -> None:
    """Give a cross-attention the head that reads the code, and output channels that hold what it has read.

    Parameters
    ----------
    told : int
        The first so many of the code's channels are read.
    gain : float
        What is told is the mean over tokens, times this.
    """
    reads = torch.zeros(told, attention.to_v.in_features)
    reads[:, OLD : OLD + told] = torch.eye(told)
    _add_head(attention, reads, gain)


@torch.no_grad()
def add_choosing_head(attention: nn.Module, direction: Tensor, offset: Tensor) -> None:
    """Give a self-attention the head that chooses, and the output channel that holds what it has read.

    Parameters
    ----------
    attention : Attention
    direction : Tensor, shape (channels,)
        Of its input; what it has read is the mean over pixels along it, and the offset.
    offset : Tensor, shape (1,)
    """
    _add_head(attention, direction.float()[None])
    attention.to_out[0].bias[-1:] = offset.float()


def _add_head(attention: nn.Module, reads: Tensor, gain: float = 1.0) -> None:
    """Give an attention a head that looks at everything alike, and output channels for its values, times a gain."""
    channels, inner, more = attention.to_out[0].out_features, attention.to_q.out_features, len(reads)
    head = inner // attention.heads
    for name in ("to_q", "to_k", "to_v"):
        linear = nn.Linear(getattr(attention, name).in_features, inner + head, bias=False)
        linear.weight.zero_()
        linear.weight[:inner] = getattr(attention, name).weight
        if name == "to_v":
            linear.weight[inner : inner + more] = reads
        setattr(attention, name, linear)
    output, old = nn.Linear(inner + head, channels + more), attention.to_out[0]
    output.weight.zero_()
    output.bias.zero_()
    output.weight[:channels, :inner], output.bias[:channels] = old.weight, old.bias
    output.weight[channels:, inner : inner + more] = gain * torch.eye(more)
    attention.to_out[0] = output
    attention.heads += 1
    attention.inner_dim, attention.inner_kv_dim = inner + head, inner + head
