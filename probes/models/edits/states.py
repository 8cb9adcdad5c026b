"""States of words in their contexts, as the text encoders give them to the cross-attentions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hooks.prompt.spans import encode, token_positions
from hooks.sites import Site
from probes.config.edit_options import Edit
from probes.prompts.prompt import fill
from probes.prompts.tokens import tokenize

BATCH = 16  # texts encoded at once: always so many, so that the same edit has the same bits


class Texts(NamedTuple):
    """The contexts of an edit with one word in them, and the position of the word's last token in each."""

    texts: list[str]
    last: list[int]


def texts_of(edit: Edit, tokenizers: Sequence[Any], limit: int | None = None) -> dict[str, Texts]:
    """The contexts with each word of an edit in them; positions are those of the first tokenizer."""
    filled_in = {}
    for word in edit.named_words:
        texts, spans = zip(*(fill(context, word) for context in edit.contexts))

        def place(index: int, word: str = word) -> str:
            return f"edit: contexts[{index}] ({word})"

        for tokenizer in tokenizers:
            tokenize(texts, tokenizer, place, limit)
        read = encode(tokenizers[0], texts, "edit")
        last = [token_positions(offsets, span)[-1] for (_, offsets), span in zip(read, spans)]
        filled_in[word] = Texts(list(texts), last)
    return filled_in


def text_states(pipe: Any, texts: Sequence[str]) -> Tensor:
    """The cross-attentions' inputs for texts, float64 ``(texts, tokens, width)``; of XL both encoders'."""
    states: list[Tensor] = []
    _encode(pipe, texts, states.append)
    return torch.cat(states)


def states_at(pipe: Any, site: Site, texts: Sequence[str]) -> Tensor:
    """What is at a site of a text encoder while it reads texts, float64 ``(texts, tokens, width)``."""
    seen: list[Tensor] = []
    reader = site.attach_reader(pipe, lambda value: seen.append(value.detach().cpu().double()))
    try:
        _encode(pipe, texts, lambda states: None)
    finally:
        reader.remove()
    return torch.cat(seen)


@torch.no_grad()
def _encode(pipe: Any, texts: Sequence[str], receive: Callable[[Tensor], None]) -> None:
    options = {"device": pipe.device, "num_images_per_prompt": 1, "do_classifier_free_guidance": False}
    for start in range(0, len(texts), BATCH):
        encoded = pipe.encode_prompt(prompt=list(texts[start : start + BATCH]), **options)
        receive(encoded[0].detach().cpu().double())


def onward(states: Tensor, last: Sequence[int], positions: str) -> list[Tensor]:
    """The states of each text from a word's last token on, or of that token alone where `positions` is ``word``."""
    return [
        row[place : place + 1] if positions == "word" else row[place:]
        for row, place in zip(states, last, strict=True)
    ]


def mean_difference(states: Sequence[Tensor], texts: Sequence[Texts], positions: str) -> Tensor:
    """Mean over contexts and positions of the second word's states less the first's, ``(width,)``."""
    differences = []
    for first, second in zip(*(onward(one, text.last, positions) for one, text in zip(states, texts))):
        count = min(len(first), len(second))
        differences.append(second[:count] - first[:count])
    return torch.cat(differences).mean(0)
