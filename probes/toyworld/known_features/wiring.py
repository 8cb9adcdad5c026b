"""Wiring of `toyworld-features`: codes of words, a cross-attention that tells their sum, a block that hears it.

Each word of `WORDS` has one and the same embedding, and in eight new channels of the text a code: six hold the
direction of its attribute (0 for the filler), two balance it, so that the codes of all words sum to zero and have one
norm, and no layer norm can tell the words apart. The indicator words have a balance of the other sign, by which their
positions are found. As in the coded null, no layer of the text tower reads or writes these channels.

The cross-attention at `SITE` has one head more (`add_telling_head`), whose output is the sum of the codes over the
prompt, the same at each pixel, in six channels of its output more. Its transformer block takes them off again; the
block at `SHOWS` gets them as the code of the indicator words. No other layer has them.
"""

from typing import Any

import numpy as np
import torch
from diffusers.models.attention import BasicTransformerBlock
from torch import Tensor, nn

from probes.toyworld.known_features.truth import ATTRIBUTES, CHANNELS, SHOWS, SITE, WORDS, directions
from probes.toyworld.located.coded import CODE
from probes.toyworld.located.truth import block_of
from probes.toyworld.located.wiring import OLD
from probes.toyworld.structures.wiring import Bus, add_telling_head

BALANCE = 2
NEW = CHANNELS + BALANCE  # channels of text more than toyworld-null's
NORM = 2.0  # of all codes, in units of CODE; a direction's is 1
TOKENS = 32
TOLD = 1 / 8  # what is told of one word has about this norm times 8
HEARD = 2.0  # the code that is heard is so many times the words' own, which is what training found easy in other models
_THRESHOLD = (
    10.0  # of the difference of the balancing channels, which is about 28 at indicator words, 0 elsewhere
)


def codes() -> dict[str, Tensor]:
    """Return the code of each word, and of indicator words under ``""``: ``(8,)`` float64, in units of `CODE`."""
    found, rows = {}, directions()
    for number, word in enumerate((*WORDS, "")):
        code = rows[number] if number < len(ATTRIBUTES) else np.zeros(CHANNELS)
        half = -code.sum() / 2
        apart = np.sqrt((NORM**2 - code @ code) / 2 - half**2)
        apart = apart if word == "" else -apart
        found[word] = torch.tensor([*code, half + apart, half - apart], dtype=torch.float64)
    return found


def told_of(text: Tensor) -> Tensor:
    """Return what the site tells of text states ``(n, 32, 104)``, as one vector each: ``(n, 6)``."""
    return TOLD * TOKENS * text[..., OLD : OLD + CHANNELS].mean(1)


def with_heard(text: Tensor, told: Tensor) -> Tensor:
    """Return text states whose indicator words have the code that was told, and no other word has any.

    Parameters
    ----------
    text : Tensor, shape (n, tokens, 104)
    told : Tensor, shape (n, 6)
    """
    first, second = text[..., -BALANCE], text[..., -1]
    here = (first - second > _THRESHOLD).to(text.dtype)[..., None]
    heard = here * (HEARD / TOLD * told)[:, None]
    return torch.cat([text[..., :OLD], heard, torch.zeros_like(text[..., -BALANCE:])], -1)


class FeatureBlock(BasicTransformerBlock):
    """A transformer block of a U-Net whose cross-attention tells what is asked for, or that hears it.

    Attributes
    ----------
    bus : Bus
        Holds under `SITE` what was told in this call, ``(n, 6)``, the mean over pixels.
    tells : bool
    """

    bus: Bus
    tells: bool

    def forward(
        self, hidden_states: Tensor, *args: Any, encoder_hidden_states: Tensor, **kwargs: Any
    ) -> Tensor:
        """Return the block's output ``(n, pixels, channels)``; arguments are those of `BasicTransformerBlock`."""
        hidden, text = hidden_states + self.attn1(self.norm1(hidden_states)), encoder_hidden_states
        if not self.tells:
            text = with_heard(text, self.bus.read[SITE])
        output = self.attn2(self.norm2(hidden), encoder_hidden_states=text)
        if self.tells:
            output, told = output[..., :-CHANNELS], output[..., -CHANNELS:]
            self.bus.read[SITE] = told.mean(1)
        hidden = hidden + output
        return hidden + self.ff(self.norm3(hidden))


@torch.no_grad()
def write_codes(
    table: Tensor, embedding: Tensor, numbers: dict[str, int], indicators: dict[str, int]
) -> None:
    """Put codes into a table of embeddings ``(tokens, 104)``, in place.

    Parameters
    ----------
    embedding : Tensor, shape (104,)
        Of all words of `WORDS`.
    numbers, indicators : dict of str to int
        Tokens of `WORDS`, and of the indicator words.
    """
    found = codes()
    for word, number in numbers.items():
        table[number] = embedding
        table[number, OLD:] = CODE * found[word]
    for number in indicators.values():
        table[number, OLD:] = CODE * found[""]


def wire_features(unet: nn.Module) -> None:
    """Let one cross-attention of a U-Net tell what is asked for and another's block hear it, in place."""
    bus = Bus()
    for site in (SITE, SHOWS):
        block = unet.get_submodule(block_of(site))
        block.__class__ = FeatureBlock
        block.bus, block.tells = bus, site == SITE
        block.register_buffer(
            "wired", torch.tensor([int(block.tells)])
        )  # so that the hash of the weights knows of it
    add_telling_head(unet.get_submodule(block_of(SITE)).attn2, CHANNELS, TOLD * TOKENS)
