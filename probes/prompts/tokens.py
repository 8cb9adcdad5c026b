"""A prompt as the model reads it: its tokens, its words, and which tokens are laid over which word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from hooks.errors import HookError
from hooks.prompt.spans import Span, encode, split_words, tokens_of_words
from probes.errors import UserError


class Tokenized(NamedTuple):
    """A text as the model reads it: tokens, words, and the characters and token positions of each word."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    spans: tuple[Span, ...]
    word_positions: tuple[tuple[int, ...], ...]


def tokenize(
    texts: Sequence[str], tokenizer: Any, place: Callable[[int], str], limit: int | None = None
) -> list[Tokenized]:
    """Return the tokens, the words and their token positions of texts; `place` says where the text of an index stands.

    At most `limit` tokens, start and end token included, are taken (default ``tokenizer.model_max_length``).
    """
    limit = min(tokenizer.model_max_length, limit or tokenizer.model_max_length)
    try:
        encoded = encode(tokenizer, texts, place(0)) if texts else []
    except HookError as error:
        raise UserError(str(error)) from None
    numbers = sorted(set(chain.from_iterable(ids for ids, _ in encoded)))
    names = dict(zip(numbers, tokenizer.convert_ids_to_tokens(numbers)))
    unspelled = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}
    read = []
    for index, (text, (ids, offsets)) in enumerate(zip(texts, encoded)):
        if len(ids) > limit:
            raise UserError(
                f"{place(index)}: expected at most {limit} tokens with start and end, got {len(ids)} in {text!r}:"
                " shorten it"
            )
        for token, (start, end) in zip(ids, offsets):
            if token in unspelled and end > start:
                raise UserError(
                    f"{place(index)}: expected words the tokenizer can spell, got {text[start:end]!r}: use another word"
                )
        split = split_words(text)
        spans = tuple(span for _, span in split)
        tokens, words = tuple(names[number] for number in ids), tuple(word for word, _ in split)
        read.append(Tokenized(tokens, words, spans, tokens_of_words(offsets, spans)))
    return read
