"""A small network that answers a question about a toyworld image in a word.

It is built as BLIP-2 is: an image encoder that is there and stays as it is (toyworld's RAM: the states of its 47 tags,
which have looked at the image, and the image's 65 tokens), and a transformer that reads a question beside what was
seen. That transformer alone is trained, by ``python -m lab train vqa``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from analysis.observe.objects.tags.ram import RamTagger, pixels, ram_files
from probes.toyworld import WEIGHTS

ANSWERS = ("yes", "no", "male", "female", "unclear")
SETTINGS: Mapping[str, Any] = {
    "vocabulary": 781,
    "context_length": 32,
    "tags": 47,
    "tag_width": 112,
    "places": 65,
    "place_width": 96,
    "width": 64,
    "heads": 4,
    "layers": 2,
    "answers": list(ANSWERS),
}
ENCODER = WEIGHTS / "vqa" / "encoder" / "model.safetensors"  # that it was trained on: RAM as it was then
Seen = tuple[torch.Tensor, torch.Tensor]  # states of tags (n, 47, 112) and tokens of places (n, 65, 96)


class ImageEncoder:
    """Toyworld's RAM, read before it gives probabilities."""

    def __init__(self, device: torch.device, path: Path = ENCODER):
        tagger = RamTagger(ram_files(path), device)
        self.model, self.size, self.device = tagger.model, tagger.files.settings["image_size"], device

    @torch.inference_mode()
    def __call__(self, images: Sequence[np.ndarray]) -> Seen:
        """Return what is seen in images, each ``(64, 64, 3)`` uint8 RGB."""
        batch = torch.stack([pixels(image, self.size) for image in images]).to(self.device)
        places = self.model.see(batch)
        return self.model.states(places), places


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
    """Logits of answers to questions about images, by settings as `SETTINGS`."""

    def __init__(self, settings: Mapping[str, Any] = SETTINGS):
        super().__init__()
        self.settings = dict(settings)
        width = settings["width"]
        self.of_tags = nn.Linear(settings["tag_width"], width)
        self.of_places = nn.Linear(settings["place_width"], width)
        self.image_norm = nn.LayerNorm(width)
        self.names = nn.Parameter(torch.randn(settings["tags"] + settings["places"], width) * 0.3)
        self.words = nn.Embedding(settings["vocabulary"], width)
        self.positions = nn.Parameter(torch.randn(settings["context_length"], width) * 0.1)
        self.layers = nn.ModuleList(Layer(width, settings["heads"]) for _ in range(settings["layers"]))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, len(settings["answers"]))
        nn.init.normal_(self.words.weight, std=0.3)

    def forward(self, seen: Seen, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Logits ``(images, questions, answers)``; tokens are ``(images, questions, length)``, as of `tokens_of`."""
        tags, places = seen
        image = self.image_norm(torch.cat([self.of_tags(tags), self.of_places(places)], 1)) + self.names
        last = lengths.flatten() - 1
        place = torch.arange(tokens.shape[2], device=tokens.device)
        mask = (place <= last[:, None])[:, None, None]
        state = self.words(tokens.flatten(0, 1)) + self.positions[: tokens.shape[2]]
        for layer in self.layers:
            state = layer(state, image, mask)
        read = self.norm(state[torch.arange(len(state), device=state.device), last])
        return self.out(read).unflatten(0, tokens.shape[:2])


def tokens_of(tokenizer: Any, questions: Sequence[str], limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token numbers ``(n, length)`` of questions, from the first to the last token, and how many each has.

    Longer ones than `limit` are cut off, and end with the last token.
    """
    options = {"truncation": True, "max_length": limit, "padding": True, "return_tensors": "pt"}
    encoded = tokenizer(list(questions), **options)
    return encoded.input_ids, encoded.attention_mask.sum(1)
