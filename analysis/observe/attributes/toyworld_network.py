"""A small network that answers a question about a toyworld image in a word.

A question's tokens look at the image: a transformer whose layers attend to the tokens and to what a few convolutions
make of the image, read at the last token. It is trained by :mod:`analysis.validation.toyworld_questions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ANSWERS = ("yes", "no", "male", "female", "unclear")
SETTINGS: Mapping[str, Any] = {
    "vocabulary": 781,
    "context_length": 32,
    "colours": 64,
    "channels": 64,
    "width": 64,
    "heads": 4,
    "layers": 2,
    "answers": list(ANSWERS),
}
SIDE = 64  # pixels
SHARPNESS = 30.0  # half of what is shared is lost at a distance of 0.15, where black and white are 3.5 apart
_GRID = SIDE // 8


class Colours(nn.Module):
    """How much of each cell of 4 × 4 pixels is near each of some colours: a soft histogram.

    Toyworld's things are told apart by their colours; to find these by convolutions takes far more steps. The colours
    are taken from the pictures before the training and stay as they are, so that a picture's shares are computed once.
    """

    def __init__(self, count: int):
        super().__init__()
        self.register_buffer("centres", torch.rand(count, 3) * 2 - 1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Shares ``(n, count, 16, 16)`` of pixels ``(n, 3, 64, 64)`` in [-1, 1]."""
        squares = (self.centres**2).sum(1)[:, None, None]
        products = F.conv2d(pixels, self.centres[:, :, None, None])
        distance = (pixels**2).sum(1, keepdim=True) - 2 * products + squares
        return F.avg_pool2d((-SHARPNESS * distance).exp(), 4)


class Residual(nn.Module):
    """Two convolutions of 3 × 3 around which the input is added."""

    def __init__(self, channels: int):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm = nn.GroupNorm(4, channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Maps ``(n, channels, h, w)``, of the same shape."""
        return image + self.second(F.gelu(self.first(self.norm(image))))


class Attention(nn.Module):
    """Attention of several heads to a sequence that may be another, after layer norm."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(
        self, tokens: torch.Tensor, others: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Tokens ``(n, length, width)`` with what they read of others ``(n, m, width)``, where the mask is true."""
        normed = self.norm(tokens)
        query, key, value = self.heads_of(normed, normed if others is tokens else others)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return tokens + self.out(seen.transpose(1, 2).flatten(2))

    def heads_of(self, tokens: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries of tokens, keys and values of others, each ``(n, heads, length, width / heads)``."""
        layers = ((self.query, tokens), (self.key, others), (self.value, others))
        query, key, value = (
            layer(source).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer, source in layers
        )
        return query, key, value


class Look(Attention):
    """Attention to the places of an image, and beside what is read there how well the best place fits.

    The softmax of attention hides whether any place fits at all, which is what most questions are about.
    """

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads)
        self.best = nn.Linear(heads, width)

    def forward(
        self, tokens: torch.Tensor, others: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Tokens ``(n, length, width)`` with what they see in images ``(n, places, width)``."""
        normed = self.norm(tokens)
        query, key, value = self.heads_of(normed, others)
        fit = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        seen = (fit.softmax(-1) @ value).transpose(1, 2).flatten(2)
        return tokens + self.out(seen) + self.best(fit.amax(-1).transpose(1, 2))


class Layer(nn.Module):
    """A layer of the question: its tokens attend to each other, then to the image."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.words, self.image = Attention(width, heads), Look(width, heads)
        self.norm = nn.LayerNorm(width)
        self.inner, self.out = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, tokens: torch.Tensor, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Tokens ``(n * k, length, width)`` of k questions about each image; image ``(n, places, width)``.

        ``mask`` says which tokens are there, ``(n * k, 1, 1, length)``.
        """
        tokens = self.words(tokens, tokens, mask)
        # all questions about an image look at it together: it is prepared for them once
        tokens = self.image(tokens.reshape(len(image), -1, tokens.shape[-1]), image).view(tokens.shape)
        return tokens + self.out(F.gelu(self.inner(self.norm(tokens))))


class AnswerNetwork(nn.Module):
    """Logits of answers to questions about images.

    Parameters
    ----------
    settings : mapping
        As `SETTINGS`.
    """

    def __init__(self, settings: Mapping[str, Any] = SETTINGS):
        super().__init__()
        self.settings = dict(settings)
        channels, width = settings["channels"], settings["width"]
        self.colours = Colours(settings["colours"])
        self.stem = nn.Sequential(
            nn.Conv2d(settings["colours"], channels, 3, stride=2, padding=1),
            Residual(channels),
        )
        self.to_width = nn.Linear(channels, width)
        self.image_norm = nn.LayerNorm(width)
        self.places = nn.Parameter(torch.randn(_GRID * _GRID, width) * 0.1)
        self.words = nn.Embedding(settings["vocabulary"], width)
        self.positions = nn.Parameter(torch.randn(settings["context_length"], width) * 0.1)
        self.layers = nn.ModuleList(Layer(width, settings["heads"]) for _ in range(settings["layers"]))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, len(settings["answers"]))
        nn.init.normal_(self.words.weight, std=0.3)

    def see(self, shares: torch.Tensor) -> torch.Tensor:
        """What is read of the colours of images, ``(n, colours, 16, 16)``: ``(n, 64, width)``."""
        image = self.to_width(self.stem(shares).flatten(2).transpose(1, 2))
        return self.image_norm(image + self.places)

    def forward(self, pixels: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits ``(images, questions, answers)``.

        Parameters
        ----------
        pixels : torch.Tensor
            ``(images, 3, 64, 64)`` in [-1, 1].
        tokens : torch.Tensor
            ``(images, questions, length)``: some questions about each image, as `tokens_of` makes them.
        lengths : torch.Tensor
            ``(images, questions)``.
        """
        return self.answer(self.see(self.colours(pixels)), tokens, lengths)

    def answer(self, image: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The same of what `see` gives."""
        last = lengths.flatten() - 1
        place = torch.arange(tokens.shape[2], device=tokens.device)
        mask = (place <= last[:, None])[:, None, None]
        state = self.words(tokens.flatten(0, 1)) + self.positions[: tokens.shape[2]]
        for layer in self.layers:
            state = layer(state, image, mask)
        read = self.norm(state[torch.arange(len(state), device=state.device), last])
        return self.out(read).unflatten(0, tokens.shape[:2])


def pixels_of(images: np.ndarray | Sequence[np.ndarray]) -> torch.Tensor:
    """Images ``(n, 64, 64, 3)`` uint8 RGB as the network takes them."""
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def tokens_of(tokenizer: Any, questions: Sequence[str], limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token numbers ``(n, length)`` of questions, from the first to the last token, and how many each has.

    Parameters
    ----------
    tokenizer
        Toyworld's CLIP's.
    limit : int
        Longer questions are cut off, and end with the last token.
    """
    numbers = [tokenizer(text, truncation=True, max_length=limit).input_ids for text in questions]
    lengths = torch.tensor([len(one) for one in numbers])
    tokens = torch.full((len(numbers), int(lengths.max())), tokenizer.eos_token_id)
    for row, one in enumerate(numbers):
        tokens[row, : len(one)] = torch.tensor(one)
    return tokens, lengths
