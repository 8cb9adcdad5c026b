"""States of words in their contexts, as the text encoders give them to the cross-attentions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hooks.attach import attach_reader
from hooks.prompt.spans import encode, token_positions
from hooks.sites import Site, module_at
from probes.config.edit_options import Edit
from probes.prompts.prompt import fill
from probes.prompts.tokens import tokenize

BATCH = 16  # texts encoded at once: always so many, so that the same edit has the same bits


class Texts(NamedTuple):
    """The contexts of an edit with one word in them, and the position of the word's last token in each."""

    texts: list[str]
    last: list[int]


def written(edit: Edit, tokenizers: Sequence[Any], limit: int | None = None) -> dict[str, Texts]:
    """The contexts with each word of an edit in them; positions are those of the first tokenizer."""
    written = {}
    for word in edit.named_words:
        filled = [fill(context, word) for context in edit.contexts]
        texts = [text for text, _ in filled]
        for tokenizer in tokenizers:
            tokenize(texts, tokenizer, lambda index, word=word: f"edit: contexts[{index}] ({word})", limit)
        read = encode(tokenizers[0], texts, "edit")
        last = [token_positions(offsets, span)[-1] for (_, offsets), (_, span) in zip(read, filled)]
        written[word] = Texts(texts, last)
    return written


@torch.no_grad()
def text_states(pipe: Any, texts: Sequence[str]) -> Tensor:
    """Return the cross-attentions' inputs for texts, float64 ``(texts, tokens, width)``; of XL both encoders'."""
    return torch.cat([_encoded(pipe, batch) for batch in _batches(texts)])


@torch.no_grad()
def states_at(pipe: Any, site: Site, texts: Sequence[str]) -> Tensor:
    """Return what is at a site of a text encoder while it reads texts, float64 ``(texts, tokens, width)``."""
    seen: list[Tensor] = []
    reader = attach_reader(
        module_at(pipe, site.module), site, lambda value: seen.append(value.detach().cpu().double())
    )
    try:
        for batch in _batches(texts):
            _encoded(pipe, batch)
    finally:
        reader.remove()
    return torch.cat(seen)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), BATCH):
        yield list(texts[start : start + BATCH])


def _encoded(pipe: Any, texts: list[str]) -> Tensor:
    encoded = pipe.encode_prompt(
        prompt=texts, device=pipe.device, num_images_per_prompt=1, do_classifier_free_guidance=False
    )
    return encoded[0].detach().cpu().double()


def onward(states: Tensor, last: Sequence[int], positions: str) -> list[Tensor]:
    """The states of each text from a word's last token on, or of that token alone where `positions` is ``word``."""
    return [
        row[place : place + 1] if positions == "word" else row[place:]
        for row, place in zip(states, last, strict=True)
    ]


def aligned(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two runs of states from their first token on, as long as the shorter."""
    count = min(len(first), len(second))
    return first[:count], second[:count]


def mean_difference(
    states: tuple[Tensor, Tensor], last: tuple[Sequence[int], Sequence[int]], positions: str
) -> Tensor:
    """Mean over contexts and positions of the second word's states less the first's, ``(width,)``."""
    runs = zip(*(onward(one, places, positions) for one, places in zip(states, last)))
    differences = [torch.sub(*reversed(aligned(first, second))) for first, second in runs]
    return torch.cat(differences).mean(0)
