"""A prompt as the model reads it: its tokens, its words, and which tokens are laid over which word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from hooks.errors import HookError
from hooks.prompt.spans import encode, split_words, tokens_of_words
from probes.errors import UserError
from probes.prompts.chunks import Chunks, Tokenized

BY_CHUNKS = 500  # texts; fewer are encoded as they are, which is sooner done than to look at the tokenizer


def tokenize(text: str, tokenizer, place: str, limit: int | None = None) -> Tokenized:
    """Tokens, words and the token positions of each word of a text, which stands at `place`.

    At most `limit` tokens, start and end token included, are taken (default ``tokenizer.model_max_length``).
    """
    return tokenize_all([text], tokenizer, lambda _: place, limit)[0]


def tokenize_all(
    texts: Sequence[str], tokenizer, place: Callable[[int], str], limit: int | None = None
) -> list[Tokenized]:
    """:func:`tokenize` for several texts at once, which takes a fraction of the time of one by one.

    `place` says where the text of an index stands.
    """
    limit = min(tokenizer.model_max_length, limit or tokenizer.model_max_length)
    try:
        chunks = Chunks.of(texts, tokenizer, place(0)) if len(texts) >= BY_CHUNKS else None
        read = [chunks and chunks.text(text) for text in texts]
        left = [index for index, one in enumerate(read) if one is None or len(one.tokens) > limit]
        encoded = encode(tokenizer, [texts[index] for index in left], place(0)) if left else []
    except HookError as error:
        raise UserError(str(error)) from None
    vocabulary = _Vocabulary.of(tokenizer, [ids for ids, _ in encoded])
    for index, (ids, offsets) in zip(left, encoded):
        read[index] = _tokenized(texts[index], ids, offsets, vocabulary, place(index), limit)
    return read  # type: ignore[return-value]  # what was None is read by now


def require_readable(
    texts: Sequence[str], tokenizer, place: Callable[[int], str], limit: int | None = None
) -> None:
    """Refuse what :func:`tokenize_all` refuses, in a fraction of its time."""
    most = min(tokenizer.model_max_length, limit or tokenizer.model_max_length)
    lengths = _lengths(texts, tokenizer, place(0))
    left = [index for index, length in enumerate(lengths) if length is None or length > most]
    if left:
        tokenize_all([texts[index] for index in left], tokenizer, lambda index: place(left[index]), limit)


def token_counts(texts: Sequence[str], tokenizer, place: str) -> list[int]:
    """Return how many tokens each text has, start and end included, however many the model reads."""
    lengths = _lengths(texts, tokenizer, place)
    left = [index for index, length in enumerate(lengths) if length is None]
    encoded = encode(tokenizer, [texts[index] for index in left], place) if left else []
    counts = {index: len(ids) for index, (ids, _) in zip(left, encoded)}
    return [counts.get(index, length or 0) for index, length in enumerate(lengths)]


def _lengths(texts: Sequence[str], tokenizer, place: str) -> list[int | None]:
    """Lengths by what stands between spaces; None where they are not known so, or texts are too few to be worth it."""
    try:
        chunks = Chunks.of(texts, tokenizer, place) if len(texts) >= BY_CHUNKS else None
    except HookError as error:
        raise UserError(str(error)) from None
    return [chunks and chunks.length(text) for text in texts]


def _tokenized(
    text: str, ids: list[int], offsets: list, vocabulary: _Vocabulary, place: str, limit: int
) -> Tokenized:
    if len(ids) > limit:
        raise UserError(
            f"{place}: expected at most {limit} tokens with start and end, got {len(ids)} in {text!r}:"
            " shorten it"
        )
    for token, (start, end) in zip(ids, offsets):
        if token in vocabulary.unspelled and end > start:
            raise UserError(
                f"{place}: expected words the tokenizer can spell, got {text[start:end]!r}: use another word"
            )
    words = split_words(text)
    return Tokenized(
        tokens=tuple(vocabulary.names[number] for number in ids),
        words=tuple(word for word, _ in words),
        spans=tuple(span for _, span in words),
        word_positions=tokens_of_words(offsets, [span for _, span in words]),
    )


@dataclass(frozen=True)
class _Vocabulary:
    """Names of the tokens of some texts, and the tokens that stand for no characters."""

    names: dict[int, str]
    unspelled: frozenset[int]

    @classmethod
    def of(cls, tokenizer, ids: Iterable[list[int]]) -> _Vocabulary:
        numbers = sorted(set(chain.from_iterable(ids)))
        unspelled = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
        return cls(dict(zip(numbers, tokenizer.convert_ids_to_tokens(numbers))), frozenset(unspelled))
