"""Texts tokenized by what stands between their spaces, each of those chunks once: captions repeat a few thousand.

Exact for CLIP's tokenizer, and used for no other. It composes characters and lower-cases them one by one, which no
space takes part in; then it takes runs of letters, single digits and runs of other signs, none of which holds a space,
and pairs bytes within these alone. So a text's tokens are those of its chunks, one chunk after another, between start
and end. `splits_at_spaces` reads from a tokenizer that it is built so; :meth:`Chunks.of` compares a few texts besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from hooks.prompt.spans import Span, encode, split_words, tokens_of_words
from probes.json_text import parse_json

COMPARED = 16  # texts that are encoded directly too
_ONE = (0,)  # the tokens of most words
_NORMALIZERS = [
    {"type": "NFC"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Lowercase"},
]
_RUNS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_PRE_TOKENIZERS = [
    {"type": "Split", "pattern": {"Regex": _RUNS}, "behavior": "Removed", "invert": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
]


def splits_at_spaces(tokenizer: Any) -> bool:
    """Return whether a fast tokenizer is CLIP's, of any vocabulary: a space parts its tokens and does nothing else."""
    state = parse_json(tokenizer.backend_tokenizer.to_str())
    model, ends = state["model"], state["post_processor"] or {}
    return (
        state["normalizer"] == {"type": "Sequence", "normalizers": _NORMALIZERS}
        and state["pre_tokenizer"] == {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS}
        and model["type"] == "BPE"
        and not model["dropout"]
        and ends.get("type") == "RobertaProcessing"
        and not (ends["trim_offsets"] or ends["add_prefix_space"])
        and not any(map(_reaches_beyond, state["added_tokens"]))
    )


def _reaches_beyond(token: dict[str, Any]) -> bool:
    """Return whether an added token holds a blank, or whether what stands around it alters where it is seen."""
    flags = token["single_word"] or token["lstrip"] or token["rstrip"]
    return flags or not token["content"] or token["content"].split() != [token["content"]]


class Chunk(NamedTuple):
    """Chunk of text between two spaces: its word, if any, with its characters; all its tokens and those of the word."""

    word: str
    begin: int
    end: int
    length: int
    tokens: tuple[str, ...]
    laid: tuple[int, ...]  # indices of the word's tokens


class Tokenized(NamedTuple):
    """A text as the model reads it: tokens, words, and the characters and token positions of each word."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    spans: tuple[Span, ...]
    word_positions: tuple[tuple[int, ...], ...]


class Chunks:
    """The chunks of some texts, tokenized; make it with :meth:`Chunks.of`."""

    def __init__(self, chunks: dict[str, Chunk], start: str, end: str) -> None:
        self._chunks = chunks
        self._start, self._end = start, end

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Any, place: str) -> Chunks | None:
        """Return the chunks of the texts; None where the tokenizer does not read them by themselves."""
        different = list({chunk: None for text in texts for chunk in text.split(" ")})
        encoded = encode(tokenizer, ["", *different], place)
        (ends, _), *encoded = encoded
        if not splits_at_spaces(tokenizer) or len(ends) != 2:
            return None
        numbers = sorted(set(chain(ends, *(ids for ids, _ in encoded))))
        names = dict(zip(numbers, tokenizer.convert_ids_to_tokens(numbers)))
        unspelled = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}
        known = {
            chunk: _chunk(chunk, [names[number] for number in ids[1:-1]], offsets[1:-1])
            for chunk, (ids, offsets) in zip(different, encoded)
            if _is_plain(chunk) and unspelled.isdisjoint(ids[1:-1])
        }
        chunks = cls(known, *(names[number] for number in ends))
        sample = texts[:: max(1, len(texts) // COMPARED)]
        return chunks if chunks._agrees(sample, encode(tokenizer, sample, place), tokenizer) else None

    def length(self, text: str) -> int | None:
        """Return how many tokens a text has, start and end included; None as for `text`."""
        try:
            return 2 + sum([len(self._chunks[chunk].tokens) for chunk in text.split(" ")])
        except KeyError:
            return None

    def text(self, text: str) -> Tokenized | None:
        """Return a text by its chunks; None where one is not known, has another blank in it, or cannot be spelled."""
        try:
            chunks = [self._chunks[chunk] for chunk in text.split(" ")]
        except KeyError:
            return None
        words, spans, positions = [], [], []
        tokens = [self._start]
        begins = 0  # the character at which the chunk begins
        for word, begin, end, length, names, laid in chunks:
            if word:
                first = len(tokens)
                words.append(word)
                spans.append((begins + begin, begins + end))
                positions.append((first,) if laid == _ONE else tuple([first + index for index in laid]))
            tokens += names
            begins += length + 1
        return Tokenized((*tokens, self._end), tuple(words), tuple(spans), tuple(positions))

    def _agrees(self, texts: Sequence[str], encoded: Sequence[tuple], tokenizer: Any) -> bool:
        """Return whether texts read by their chunks are what the tokenizer reads in them as a whole."""
        for text, (ids, offsets) in zip(texts, encoded):
            read = self.text(text)
            direct = read and (
                tuple(tokenizer.convert_ids_to_tokens(ids)),
                tokens_of_words(offsets, [span for _, span in split_words(text)]),
            )
            if read and (read.tokens, read.word_positions) != direct:
                return False
        return True


def _is_plain(chunk: str) -> bool:
    """Return whether no blank stands in a chunk; two spaces have nothing between them."""
    return not chunk or chunk.split() == [chunk]


def _chunk(text: str, tokens: Sequence[str], offsets: Sequence[Span]) -> Chunk:
    words = split_words(text)
    word, (begin, end) = words[0] if words else ("", (0, 0))
    laid = tokens_of_words(offsets, [(begin, end)])[0] if words else ()
    return Chunk(word, begin, end, len(text), tuple(tokens), laid)
