"""Words that a model does not know, and prompts of a triplet with different numbers of tokens. Imports no torch.

A text encoder reads a word that its tokenizer has no token for as several pieces. The tokenizers of the bundled models
have one token for each word that they were taught, so a word in pieces is one that they do not know. Large models know
most words in pieces, too; pieces of one or two letters are those of rare words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hooks.prompt.spans import split_words
from probes.prompts.sample import Sample
from probes.toyworld import MODELS

_MARKS = ("</w>", "\u0120", "\u2581", "##")  # of the ends and beginnings of words, in tokenizers
_SHORT = 2  # letters of a rare piece
SHOWN = 5  # words, or prompts, that a line names


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
