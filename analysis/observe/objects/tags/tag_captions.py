"""Tags to captions that a text encoder can take, and a detector's tokens back to tags.

Grounding DINO takes its tags as one text, ``dog . bow tie .``, and scores every token. Tags are put into as few
captions as hold them whole, and which tokens belong to which tag is kept, so a detection is matched to its tag
by place and not by spelling: the ``tie`` of ``bow tie`` is not the tag ``tie``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from probes.errors import UserError

BERT_LIMIT = 256  # tokens of a caption that Grounding DINO takes
_AROUND = 2  # tokens that start and end a caption


@dataclass(frozen=True)
class Caption:
    """A text for the detector, ``dog . bow tie .``, and for each tag its words, as positions of their tokens in it."""

    text: str
    words: Mapping[str, tuple[tuple[int, ...], ...]]


def captions(tags: Sequence[str], tokenizer: Any, limit: int) -> list[Caption]:
    """Put tags into captions of at most `limit` tokens, in order, each tag whole.

    `limit` counts the tokens that start and end a text; a tag that is longer by itself is refused.
    """
    made: list[Caption] = []
    texts: list[str] = []
    words: dict[str, tuple[tuple[int, ...], ...]] = {}
    place = 1
    for tag in tags:
        owners = _owners(tokenizer, tag)
        count = len(owners) + 1  # and the full stop after it
        if count + _AROUND > limit:
            raise UserError(
                f"observe.vocabulary: expected tags of at most {limit - _AROUND - 1} tokens, got {count - 1} in"
                f" {tag[:40]!r}: shorten it"
            )
        if words and place + count + 1 > limit:
            made.append(Caption(" . ".join(texts) + " .", words))
            texts, words, place = [], {}, 1
        texts.append(tag)
        words[tag] = tuple(
            tuple(place + index for index, owner in enumerate(owners) if owner == word)
            for word in dict.fromkeys(owners)
        )
        place += count
    if words:
        made.append(Caption(" . ".join(texts) + " .", words))
    return made


@lru_cache(maxsize=4096)
def _owners(tokenizer: Any, tag: str) -> tuple[int, ...]:
    """Return the word of a tag to which each of its tokens belongs; cached, since images share their tags."""
    return tuple(tokenizer(tag, add_special_tokens=False).word_ids())


def match(probabilities: np.ndarray, caption: Caption, text_threshold: float) -> list[tuple[str, str]]:
    """Match candidates, ``(n, tokens)`` probabilities, to tags by the tokens above a threshold.

    For each its tag and an empty text, or an empty text and why it has none: ``empty`` (no tag's token is above the
    threshold), ``merged`` (tokens of several tags are) or ``unknown`` (no word of the tag is above it as a whole).
    """
    results = []
    for row in probabilities > text_threshold:
        hit = {
            tag: [row[list(word)] for word in words]
            for tag, words in caption.words.items()
            if any(row[list(word)].any() for word in words)
        }
        tag = next(iter(hit), "")
        why = "" if len(hit) == 1 else "merged" if hit else "empty"
        if not why and not any(word.all() for word in hit[tag]):
            why = "unknown"
        results.append(("" if why else tag, why))
    return results
