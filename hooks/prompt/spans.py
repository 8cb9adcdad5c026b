"""Span of a word in a prompt: its characters in the text, and the tokens over and around them. Imports no torch.

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

WORD, REST = "word", "rest"  # all but the word
# of token positions, by their place around a word
GROUPS = ("start", "before", WORD, "after", "end", "padding")
_EDGE = "\"'`“”‘’.,;:!?()[]{}<>…"


def split_words(text: str) -> list[tuple[str, Span]]:
    """Return the words between white space, without punctuation at their edges, each with its span of characters.

    >>> split_words("a non-binary person, smiling")
    [('a', (0, 1)), ('non-binary', (2, 12)), ('person', (13, 19)), ('smiling', (21, 28))]
    """
    words = []
    for match in re.finditer(r"\S+", text):
        chunk = match[0]
        start = match.start() + len(chunk) - len(chunk.lstrip(_EDGE))
        word = chunk.strip(_EDGE)
        if word:
            words.append((word, (start, start + len(word))))
    return words


def split_pieces(text: str) -> list[Span]:
    """Return the (start, end) spans of a text's runs of letters, accents included, and runs of digits.

    >>> [text[a:b] for text in ("A woman's non-binary hat, 42 cm2!",) for a, b in split_pieces(text)]
    ['A', 'woman', 's', 'non', 'binary', 'hat', '42', 'cm', '2']
    """
    kinds = [
        "d" if char.isnumeric() else "l" if char.isalpha() else unicodedata.category(char)[0] for char in text
    ]
    return [match.span() for match in re.finditer("l[lM]*|d[dM]*", "".join(kinds))]  # M: accents


def encode(tokenizer: Any, texts: Sequence[str], error_prefix: str) -> list[tuple[list[int], list[Span]]]:
    """Return each text's token ids, not truncated, and the character spans of its tokens; needs a fast tokenizer.

    A token of no characters, such as the start of text, has an empty span. `error_prefix` begins the error's message.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise HookError(
            f"{error_prefix}: expected a fast tokenizer, which tells the characters of a token, but got "
            f"{type(tokenizer).__name__}: install transformers>=5"
        )
    encoded = tokenizer(
        list(texts), return_offsets_mapping=True, return_attention_mask=False, truncation=False, verbose=False
    )
    return list(zip(encoded["input_ids"], encoded["offset_mapping"]))


def token_positions(offsets: Iterable[Span], span: Span) -> tuple[int, ...]:
    """Return the positions of the tokens that have a character in `span`, by the tokens' character spans `offsets`.

    >>> token_positions([(0, 0), (0, 1), (2, 5), (5, 7), (0, 0)], (2, 7))
    (2, 3)
    """
    return tokens_of_words(offsets, [span])[0]


def tokens_of_words(offsets: Iterable[Span], spans: Sequence[Span]) -> tuple[tuple[int, ...], ...]:
    """Return, for each word's character span, the positions of its tokens, by the tokens' spans `offsets`.

    >>> tokens_of_words([(0, 0), (0, 1), (2, 5), (5, 8), (8, 9), (0, 0)], [(0, 1), (2, 8)])
    ((1,), (2, 3))
    """
    tokens = [(token, start, end) for token, (start, end) in enumerate(offsets) if start < end]
    return tuple(
        tuple(token for token, start, end in tokens if start < stop and begin < end) for begin, stop in spans
    )


def parse_groups(groups: str) -> tuple[str, ...]:
    """Return the names in a text of token-position groups joined by ``+``; for "rest", all groups but "word".

    >>> parse_groups("start+before"), parse_groups("rest")
    (('start', 'before'), ('start', 'before', 'after', 'end', 'padding'))
    """
    return tuple(group for group in GROUPS if group != WORD) if groups == REST else tuple(groups.split("+"))


def groups_around(
    word_positions: Sequence[int], n_tokens: int, length: int, *, start: bool = True, end: bool = True
) -> dict[str, tuple[int, ...]]:
    """Return a padded prompt's token positions by group around a word: start, before, word, after, end, padding.

    Tokens between several occurrences of the word (in a caption of its own) count as after it. `start`, `end`: whether
    the tokenizer puts such a token around the text; T5's puts none before.

    >>> (
    ...     groups_around((2, 3), n_tokens=6, length=8)["after"],
    ...     groups_around((2, 3), n_tokens=6, length=8)["padding"],
    ... )
    ((4,), (6, 7))
    """
    last = n_tokens - end
    inner = [position for position in range(start, last) if position not in word_positions]
    first = min(word_positions, default=last)
    return {
        "start": (0,) * start,
        "before": tuple(position for position in inner if position < first),
        "word": tuple(word_positions),
        "after": tuple(position for position in inner if position > first),
        "end": (last,) * end,
        "padding": tuple(range(n_tokens, length)),
    }
