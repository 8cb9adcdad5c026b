"""A row of the plan, which is an image to generate, and the words of its prompt: their tokens, and which are shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import JOINED, TOKENIZERS
from hooks.errors import HookError
from hooks.prompt.spans import (
    GROUPS,
    Span,
    encode,
    groups_around,
    split_words,
    token_positions,
    tokens_of_words,
)
from hooks.prompt.wordlist import tokenizer_of
from probes.errors import UserError

PositionGroups = Mapping[str, tuple[int, ...]]


class Sample(NamedTuple):
    """One image to generate, with its prompt's words and token positions; a named tuple, as a run may have 500,000.

    Words are those of `hooks.prompt.spans`, ``word_spans`` their characters in the prompt, half open. Token positions
    count from the start token, which is 0, or from the start of the template that the model puts around a prompt. They
    are those of the first text encoder, but for ``word_positions_2`` and ``shared_positions_2``, of the last: the
    second of SDXL and FLUX.1, the third of SD3, whose first two read alike. They are None where the model has one.
    """

    sample_id: str
    triplet: int
    prompt_id: str
    template: str
    indicator: str
    word: str
    prompt: str
    negative_prompt: str
    seed: int
    noise_seed: int
    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_spans: tuple[Span, ...]
    word_positions: tuple[tuple[int, ...], ...]
    word_positions_2: tuple[tuple[int, ...], ...] | None
    indicator_positions: tuple[int, ...]
    shared_positions: tuple[int, ...]
    shared_positions_2: tuple[int, ...] | None = None
    system_prompt: str | None = None  # None: the model's own

    def row(self) -> dict:
        """Return the sample's values by column of the table ``samples/``, without the columns of its image."""
        row = self._asdict()
        del row["shared_positions"], row["shared_positions_2"], row["system_prompt"]
        return row


def noise_seed(text: str, seed: int) -> int:
    """Return the 63-bit seed for the initial noise of the images of a prompt's text with a seed of the run.

    Noise of their own makes prompts independent, as every interval over prompts supposes: with the same few
    noises under all of them the images share their layouts, and intervals come out too narrow.
    """
    return int.from_bytes(sha256(f"{seed}\n{text}".encode()).digest()[:8], "big") >> 1


class Tokenized(NamedTuple):
    """A tokenized text: tokens, words, and the character span and token positions of each word."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    spans: tuple[Span, ...]
    word_positions: tuple[tuple[int, ...], ...]


def tokenize(
    texts: Sequence[str], tokenizer: Any, location: Callable[[int], str], limit: int | None = None
) -> list[Tokenized]:
    """Return tokens and words of each text; a `UserError` that begins with ``location(index)`` for unusable texts.

    At most `limit` tokens, start and end token included, are taken (default ``tokenizer.model_max_length``).
    """
    limit = min(tokenizer.model_max_length, limit or tokenizer.model_max_length)
    try:
        encoded = encode(tokenizer, texts, location(0)) if texts else []
    except HookError as error:
        raise UserError(str(error)) from None
    numbers = sorted(set(chain.from_iterable(ids for ids, _ in encoded)))
    names = dict(zip(numbers, tokenizer.convert_ids_to_tokens(numbers)))
    unspelled = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}
    result = []
    for index, (text, (ids, offsets)) in enumerate(zip(texts, encoded)):
        if len(ids) > limit:
            raise UserError(
                f"{location(index)}: expected at most {limit} tokens with start and end, got {len(ids)} in {text!r}:"
                " shorten it"
            )
        for token, (start, end) in zip(ids, offsets):
            if token in unspelled and end > start:
                raise UserError(
                    f"{location(index)}: expected words the tokenizer can spell, got {text[start:end]!r}: use another"
                    " word"
                )
        split = split_words(text)
        spans = tuple(span for _, span in split)
        tokens, words = tuple(names[number] for number in ids), tuple(word for word, _ in split)
        result.append(Tokenized(tokens, words, spans, tokens_of_words(offsets, spans)))
    return result


def caption_forms(word: str, plural: str) -> set[tuple[str, ...]]:
    """Return how a word for a person stands in captions (singular, plural, possessives), as lower-case word tuples.

    >>> sorted(caption_forms("old man", "old men"))
    [('old', 'man'), ('old', "man's"), ('old', 'man’s'), ('old', 'men'), ('old', "men's"), ('old', 'men’s')]
    """
    result = set()
    for phrase in (word, plural):
        *before, last = phrase.lower().split()
        result |= {(*before, last), (*before, f"{last}'s"), (*before, f"{last}’s")}
    return result


def phrase_indices(words: Sequence[str], phrases: Collection[tuple[str, ...]]) -> set[int]:
    """Return the indices of those of a text's words that belong to one of `phrases`, lower-case word tuples.

    >>> sorted(phrase_indices(["A", "woman", "and", "two", "women"], caption_forms("woman", "women")))
    [1, 4]
    """
    low = [word.lower() for word in words]
    lengths, first_words = {len(phrase) for phrase in phrases}, {phrase[0] for phrase in phrases}
    return {
        index
        for start, word in enumerate(low)
        if word in first_words
        for length in lengths
        if tuple(low[start : start + length]) in phrases
        for index in range(start, start + length)
    }


def shared_words(texts: Sequence[Sequence[str]], excluded: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return, for each text of a triplet (a list of words), the indices of the words that all its texts share.

    A word shared by all but one is left out for all, so that every pair of a triplet is compared over the
    same words. Where an article was mended (a person, an individual) it is no longer shared. Words `excluded` by their
    indices, which belong to the indicator, are not shared.

    >>> shared_words([["a", "man", "runs"], ["A", "tall", "woman", "runs"]], [{1}, {1, 2}])
    [(0, 2), (0, 3)]
    """
    low = [[word.lower() for word in words] for words in texts]
    rest = [
        tuple([index for index in range(len(words)) if index not in indices])
        for words, indices in zip(low, excluded)
    ]
    if all([low[0][i] for i in rest[0]] == [words[i] for i in indices] for words, indices in zip(low, rest)):
        return rest
    keys = [
        [f"\0{number}" if index in excluded[number] else word for index, word in enumerate(words)]
        for number, words in enumerate(low)
    ]
    maps = []
    for other in keys[1:]:
        blocks = SequenceMatcher(a=keys[0], b=other, autojunk=False).get_matching_blocks()
        maps.append({block.a + k: block.b + k for block in blocks for k in range(block.size)})
    common = [index for index in rest[0] if all(index in mapping for mapping in maps)]
    return [tuple(common), *(tuple(mapping[index] for index in common) for mapping in maps)]


def indicator_spans(sample: Sample) -> list[Span]:
    """Return the character spans of the words in a sample's prompt whose tokens all belong to its indicator."""
    inside = set(sample.indicator_positions)
    words = zip(sample.word_spans, sample.word_positions, strict=True)
    return [span for span, positions in words if positions and set(positions) <= inside]


@dataclass(frozen=True)
class TextTowers:
    """Tokenizers of a pipeline's text encoders, and how their positions make up the text input of the denoiser."""

    tokenizers: Mapping[str, Any]  # by encoder: text, text_2
    lengths: Mapping[str, int]  # positions that each encoder is given
    joined: Sequence[str]  # encoders whose positions follow one another in the denoiser's text

    @classmethod
    def from_pipeline(cls, pipe: Any) -> TextTowers | None:
        """Return the tokenizers and text lengths of a pipeline; None if it puts a template around prompts."""
        architecture = architecture_of(pipe)
        if architecture.layouts[-1].template:
            return None
        by_name = {name: item for name in TOKENIZERS if (item := tokenizer_of(pipe, name)) is not None}
        lengths = {
            name: min(architecture.tokens(pipe, name), by_name[name].model_max_length) for name in by_name
        }
        # of two in a U-Net, side by side, the positions are the same
        return cls(by_name, lengths, architecture.joined_encoders() if architecture.transformer else ["text"])

    def position_groups(self, prompt: str, spans: Sequence[Span]) -> dict[str, PositionGroups]:
        """Return a prompt's token positions by encoder, then by group around the character `spans`: before, word, ...

        The groups are those of `hooks.position_groups`; under `JOINED` are positions in the denoiser's text.
        """
        groups: dict[str, PositionGroups] = {}
        for name, tokenizer in self.tokenizers.items():
            ((ids, offsets),) = encode(tokenizer, [prompt], "trace")
            inside = sorted({place for span in spans for place in token_positions(offsets, span)})
            start, end = (ids[place] in tokenizer.all_special_ids for place in (0, -1))
            groups[name] = groups_around(inside, len(ids), self.lengths[name], start=start, end=end)
        joined: dict[str, tuple[int, ...]] = dict.fromkeys(GROUPS, ())
        offset = 0
        for name in self.joined:
            for group, places in groups[name].items():
                joined[group] += tuple(offset + place for place in places)
            offset += self.lengths[name]
        return {**groups, JOINED: joined}
