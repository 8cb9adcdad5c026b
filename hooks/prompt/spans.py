"""Span of a word in a prompt: its characters in the text, and the tokens laid over them. Imports no torch.

A *word* is what stands between white space, without the punctuation at its edges: "non-binary" and "woman's" are one.
Words are what ``samples/`` stores, what the members of a triplet are compared over, and what a heat map is stored of.

The *pieces* of a word are its runs of letters, or of digits: "non" and "binary", "woman" and "s". A probe is asked for
them by name. It may know a prompt by its token ids alone, and of those "woman's" and "woman 's" are the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from hooks.errors import HookError

Span = tuple[int, int]  # characters of a text, half open

_EDGE = "\"'`“”‘’.,;:!?()[]{}<>…"


def split_words(text: str) -> list[tuple[str, Span]]:
    """Words between white space, without the punctuation at their edges, each with its span of characters.

    >>> split_words("a non-binary person, smiling")
    [('a', (0, 1)), ('non-binary', (2, 12)), ('person', (13, 19)), ('smiling', (21, 28))]
    """
    found = []
    for match in re.finditer(r"\S+", text):
        chunk = match[0]
        start = match.start() + len(chunk) - len(chunk.lstrip(_EDGE))
        word = chunk.strip(_EDGE)
        if word:
            found.append((word, (start, start + len(word))))
    return found


def split_pieces(text: str) -> list[Span]:
    """Spans of the pieces of a text's words: runs of letters with their accents, or of digits.

    Examples
    --------
    >>> [text[a:b] for text in ("A woman's non-binary hat, 42 cm2!",) for a, b in split_pieces(text)]
    ['A', 'woman', 's', 'non', 'binary', 'hat', '42', 'cm', '2']
    """
    return [(start + a, start + b) for word, (start, _) in split_words(text) for a, b in _runs(word)]


def _runs(word: str) -> list[Span]:
    spans: list[Span] = []
    before = ""
    for i, character in enumerate(word):
        kind = "d" if character.isnumeric() else "l" if character.isalpha() else ""
        if before and unicodedata.category(character).startswith("M"):
            kind = before  # an accent, of the letter before it
        if kind and kind == before:
            spans[-1] = (spans[-1][0], i + 1)
        elif kind:
            spans.append((i, i + 1))
        before = kind
    return spans


def require_fast(tokenizer: Any, place: str) -> None:
    """Raise a HookError where a tokenizer does not tell the characters of its tokens; `place` says what it is for."""
    if not getattr(tokenizer, "is_fast", False):
        raise HookError(
            f"{place}: expected a fast tokenizer, which tells the characters of a token, but got "
            f"{type(tokenizer).__name__}: install transformers>=5"
        )


def encode(tokenizer: Any, texts: Sequence[str], place: str) -> list[tuple[list[int], list[Span]]]:
    """Token ids of texts, uncut, with start and end of text, and the characters of each token.

    A token of no characters, such as the start of text, has an empty span. Refuses a tokenizer that gives none.
    """
    require_fast(tokenizer, place)
    encoded = tokenizer(
        list(texts), return_offsets_mapping=True, return_attention_mask=False, truncation=False, verbose=False
    )
    return list(zip(encoded["input_ids"], encoded["offset_mapping"]))


def token_positions(offsets: Iterable[Span], span: Span) -> tuple[int, ...]:
    """Positions of the tokens that have a character in a span.

    Examples
    --------
    >>> token_positions([(0, 0), (0, 1), (2, 5), (5, 7), (0, 0)], (2, 7))
    (2, 3)
    """
    return tokens_of_words(offsets, [span])[0]


def tokens_of_words(offsets: Iterable[Span], spans: Sequence[Span]) -> tuple[tuple[int, ...], ...]:
    """Positions of the tokens of each word, by its span.

    Examples
    --------
    >>> tokens_of_words([(0, 0), (0, 1), (2, 5), (5, 8), (8, 9), (0, 0)], [(0, 1), (2, 8)])
    ((1,), (2, 3))
    """
    tokens = [(place, start, end) for place, (start, end) in enumerate(offsets) if start < end]
    return tuple(
        tuple(place for place, start, end in tokens if start < stop and begin < end) for begin, stop in spans
    )
