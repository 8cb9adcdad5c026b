"""A row of the plan, which is an image to generate, and the words of its prompt: their tokens, and which are shared.

And lines on words that a model does not know, and on prompts of a triplet with different numbers of tokens. A text
encoder reads a word that its tokenizer has no token for as several pieces. The tokenizers of the bundled models have
one token for each word that they were taught, so a word in pieces is one that they do not know. Large models know most
words in pieces, too; pieces of one or two letters are those of rare words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from probes.toyworld import MODELS

_MARKS = ("</w>", "\u0120", "\u2581", "##")  # of the ends and beginnings of words, in tokenizers
_SHORT = 2  # letters of a rare piece
SHOWN = 5  # words, or prompts, that a line names
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
    """Return tokens and words of each text; a `UserError` at ``location(index)`` if too long or unspellable.

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
    """Return the forms of a word for a person in captions, possessives included, as lower-case word tuples.

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


def shared_word_indices(
    texts: Sequence[Sequence[str]], excluded: Sequence[set[int]]
) -> list[tuple[int, ...]]:
    """Return, for each text, the indices of words that all share in order: the k-th are one word in all texts.

    A word shared by all but one is left out for all, so that every pair of a triplet is compared over the
    same words. Where an article was mended (a person, an individual) it is no longer shared. Words `excluded` by their
    indices, which belong to the indicator, are not shared.

    >>> shared_word_indices([["a", "man", "runs"], ["A", "tall", "woman", "runs"]], [{1}, {1, 2}])
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
        """Return a prompt's token positions by encoder or `JOINED`, then by group (before, word, ...) around spans."""
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


# Words in pieces, and numbers of tokens


class Text(NamedTuple):
    """A prompt of an indicator as a model reads it, see `probes.prompts.sample.Sample`."""

    prompt_id: str
    indicator: str
    word: str
    tokens: Sequence[str]
    words: Sequence[str]
    word_positions: Sequence[Sequence[int]]
    word_positions_2: Sequence[Sequence[int]] | None = None


@dataclass
class PromptTokens:
    """Tokens of a run's prompts."""

    pieces: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of words that are several tokens
    words: dict[str, str] = field(default_factory=dict)  # by indicator
    lengths: dict[str, dict[str, int]] = field(default_factory=dict)  # tokens by prompt and indicator
    lengths_2: dict[str, dict[str, int]] = field(default_factory=dict)  # of the last text encoder

    @classmethod
    def from_texts(cls, texts: Iterable[Text | Sample]) -> PromptTokens:
        """Read texts; one that comes again, of another seed, is passed over."""
        read = cls()
        for text in texts:
            counts = read.lengths.setdefault(text.prompt_id, {})
            if text.indicator in counts or not len(text.tokens):
                continue
            counts[text.indicator] = len(text.tokens)
            read.words[text.indicator] = text.word
            if text.word_positions_2 is not None and len(text.word_positions_2):
                last = max(max(positions, default=0) for positions in text.word_positions_2)
                read.lengths_2.setdefault(text.prompt_id, {})[text.indicator] = last + 1
            for word, positions in zip(text.words, text.word_positions):
                if len(positions) > 1 and word.lower() not in read.pieces:
                    read.pieces[word.lower()] = tuple(_piece(text.tokens[position]) for position in positions)
        return read


def _piece(token: str) -> str:
    for mark in _MARKS:
        token = token.replace(mark, "")
    return token


def unknown_words_line(read: PromptTokens, model: str) -> str:
    """Say which words a model does not know, or reads in pieces; empty where there are none.

    Of a bundled model the vocabulary is what it was taught.
    """
    persons = {piece.lower() for word in read.words.values() for piece, _ in split_words(word)}
    first = sorted(read.pieces, key=lambda word: word not in persons)
    if model in MODELS:
        known = "its images say nothing of them; take words that it knows"
        return f"{model} does not know {_quoted(first)}: {known}" if first else ""
    rare = {word for word, pieces in read.pieces.items() if any(len(piece) <= _SHORT for piece in pieces)}
    named = [
        f"“{word}” as {len(read.pieces[word])} tokens ({'·'.join(read.pieces[word])}"
        f"{', short pieces, as of rare words' if word in rare else ''})"
        for word in first
        if word in persons or word in rare
    ]
    more = f"; and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    line = f"read in pieces: {'; '.join(named[:SHOWN])}{more}; a model may know little of a word that it seldom read"
    return line if named else ""


def _quoted(words: Sequence[str]) -> str:
    quoted = [f"“{word}”" for word in words[:SHOWN]]
    if len(words) > SHOWN:
        return f"{', '.join(quoted)} and {len(words) - SHOWN} more words"
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


def token_counts_line(read: PromptTokens, reference: str) -> str:
    """Say in which triplets the prompts have different numbers of tokens, and by which words; empty where in none.

    Prompts are compared with those of the indicator `reference`.
    """
    # FLUX.1 and SD3 read a prompt by CLIP and by T5
    for lengths, encoder in ((read.lengths, ""), (read.lengths_2, " in the last text encoder")):
        uneven = [prompt for prompt, counts in lengths.items() if len({*counts.values()}) > 1]
        if not uneven:
            continue
        named = ", ".join(uneven[:SHOWN]) + (", …" if len(uneven) > SHOWN else "")
        triplets = f"{len(uneven):,} of {len(lengths):,} triplet{'s' if len(lengths) > 1 else ''}"
        return (
            f"{triplets} {'has' if len(uneven) == 1 else 'have'} prompts of different numbers of tokens{encoder}"
            f" ({named}; {_longer(read.words, lengths, reference)}): every later word stands elsewhere, which alone can"
            " make a difference; take words of as many tokens"
        )
    return ""


def _longer(words: Mapping[str, str], lengths: Mapping[str, Mapping[str, int]], reference: str) -> str:
    """How many tokens more or fewer each indicator's prompts have than the reference's."""
    listed = []
    for name, word in words.items():
        both = [counts for counts in lengths.values() if name in counts and reference in counts]
        differences = {counts[name] - counts[reference] for counts in both}
        if differences - {0}:
            low, high = (f"{value:+d}" if value else "0" for value in (min(differences), max(differences)))
            listed.append(f"“{word}” {low if low == high else f'{low} to {high}'}")
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{', '.join(listed[:SHOWN])}{more} of “{words.get(reference, reference)}”"
