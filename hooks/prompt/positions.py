"""Groups of token positions around a word: where a text encoder carries what the word says. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooks.errors import HookError
from hooks.prompt.given import with_vectors
from hooks.prompt.spans import encode, split_words, token_positions

JOINED = "dit"  # in the place of an encoder's name: the text that a diffusion transformer is given
WORD, REST = "word", "rest"  # all but the word
GROUPS = ("start", "before", WORD, "after", "end", "padding")


def position_groups(
    tokenizer: Any, prompt: str, word: str, occurrence: int = 0
) -> dict[str, tuple[int, ...]]:
    """Return the token positions of a prompt by their place around one of its words.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of transformers, which pads to its `model_max_length`.
    prompt : str
    word : str
        A word between white space, without punctuation at its edges; case counts.
    occurrence : int
        Which of several, from 0.

    Returns
    -------
    dict of str to tuple of int
        "start" (of text), "before" the word, "word", "after" it, "end" (of text), "padding". Together all positions,
        each once.

    Raises
    ------
    HookError
        If the word does not occur so often, or the prompt is longer than the tokenizer takes.
    """
    spans = [span for text, span in split_words(prompt) if text == word]
    if not 0 <= occurrence < len(spans):
        raise HookError(
            f"positions: expected {word!r} at least {occurrence + 1} times in {prompt!r}, but it is there "
            f"{len(spans)} times"
        )
    ((ids, offsets),) = encode(with_vectors(tokenizer), [prompt], "positions")
    length = tokenizer.model_max_length
    if len(ids) > length:
        raise HookError(f"positions: expected at most {length} tokens, but {prompt!r} has {len(ids)}")
    return groups_around(token_positions(offsets, spans[occurrence]), len(ids), length)


def joined_groups(groups: str) -> tuple[str, ...]:
    """Return the groups of positions that are joined by ``+``; those around the word for `REST`.

    Examples
    --------
    >>> joined_groups("start+before"), joined_groups("rest")
    (('start', 'before'), ('start', 'before', 'after', 'end', 'padding'))
    """
    return tuple(one for one in GROUPS if one != WORD) if groups == REST else tuple(groups.split("+"))


def groups_around(
    inside: Sequence[int], tokens: int, length: int, *, start: bool = True, end: bool = True
) -> dict[str, tuple[int, ...]]:
    """Token positions around those of a word, see `position_groups`.

    What stands between several places of the word (in a caption of its own) counts as after it. `start`, `end`: the
    tokenizer puts such a token around the text; T5's puts none before.

    Examples
    --------
    >>> (
    ...     groups_around((2, 3), tokens=6, length=8)["after"],
    ...     groups_around((2, 3), tokens=6, length=8)["padding"],
    ... )
    ((4,), (6, 7))
    """
    last = tokens - end
    inner = [position for position in range(start, last) if position not in inside]
    first = min(inside, default=last)
    return {
        "start": (0,) * start,
        "before": tuple(position for position in inner if position < first),
        "word": tuple(inside),
        "after": tuple(position for position in inner if position > first),
        "end": (last,) * end,
        "padding": tuple(range(tokens, length)),
    }
