"""What a word of a text is, and the tokens laid over it, on texts of every kind and on two tokenizers."""

import itertools
import unicodedata
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import CLIPTokenizer

from hooks import HookError
from hooks.prompt.spans import encode, split_pieces, split_words, token_positions
from probes.toyworld import WEIGHTS
from tests.tiny import tiny_tokenizer

# of the kinds a prompt is made of; what YAML allows, so no control characters
ASTRONAUT = "👩\u200d🚀"  # two characters and what joins them
CHUNKS = st.sampled_from(
    [
        *("a", "woman", "woman's", "women’s", "non-binary", "X-ray", "R&B", "42", "cm2", "3.14", "o'clock"),
        *("(with", "a)", '"hat"', "dog.", "...", "-", "—", "&", "_", "été", "E\u0301te\u0301", "Straße"),
        *(
            "日本",
            "人",
            "한국어",
            ASTRONAUT,
            "🙂",
            "hat🙂",
            "ראש",
            "«رجل»",
            "Ⅷ",
            "½",
            "İ",
            "\ufb01",
            "\u200bhat",
        ),
    ]
)
BLANKS = st.sampled_from([" ", "  ", "\t", "\n", "\xa0", "\u3000", ""])
SPOKEN = st.lists(st.tuples(CHUNKS, BLANKS)).map(lambda parts: "".join(itertools.chain(*parts)))
ANYTHING = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=30)
TEXTS = st.one_of(SPOKEN, ANYTHING)
PUNCTUATION = "\"'`“”‘’.,;:!?()[]{}<>…"
KINDS = ("tiny", "toyworld")


def tokenizer(kind):
    made = (
        tiny_tokenizer() if kind == "tiny" else CLIPTokenizer.from_pretrained(WEIGHTS / "toyworld/tokenizer")
    )
    made.model_max_length = 100_000
    return made


@pytest.fixture(scope="module")
def tokenizers():
    return {kind: tokenizer(kind) for kind in KINDS}


@given(TEXTS)
@example("a  person's zebra, (with) a DOG.")
@example(" - a, ... b")
def test_words_stand_between_white_space_without_punctuation_at_their_edges(text):
    words = split_words(text)
    chunks = (chunk.strip(PUNCTUATION) for chunk in text.split())
    assert [word for word, _ in words] == [chunk for chunk in chunks if chunk]
    assert [text[a:b] for _, (a, b) in words] == [word for word, _ in words]
    ends = [0, *itertools.chain(*(span for _, span in words)), len(text)]
    assert ends == sorted(ends)
    between = "".join(text[a:b] for a, b in zip(ends[::2], ends[1::2]))
    assert not between.translate(dict.fromkeys(map(ord, PUNCTUATION))).strip()


@given(TEXTS)
def test_pieces_are_runs_of_letters_or_digits_within_words(text):
    """The independent way: character by character, an accent of the kind of the letter before it."""
    expected, before = [], ""
    for place, character in enumerate(text):
        kind = "d" if character.isnumeric() else "l" if character.isalpha() else ""
        if before and unicodedata.category(character)[0] == "M":
            kind = before
        if kind and kind == before:
            expected[-1] = (expected[-1][0], place + 1)
        elif kind:
            expected.append((place, place + 1))
        before = kind
    pieces = split_pieces(text)
    assert pieces == expected
    spans = [span for _, span in split_words(text)]
    assert all(sum(a <= begin and stop <= b for a, b in spans) == 1 for begin, stop in pieces)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=TEXTS)
@example(text="a  person's zebra, (with) a DOG.")
def test_every_token_is_of_one_word_or_of_none(tokenizers, kind, text):
    """Told by the characters: those of a token are of one word at most, and a word's are all in its tokens."""
    ((ids, offsets),) = encode(tokenizers[kind], [text], "here")
    spans = [span for _, span in split_words(text)]
    positions = [token_positions(offsets, span) for span in spans]
    word_of = {place: index for index, (a, b) in enumerate(spans) for place in range(a, b)}
    for place, (a, b) in enumerate(offsets):
        words = {word_of[character] for character in range(a, b) if character in word_of}
        assert len(words) <= 1
        assert [index for index, own in enumerate(positions) if place in own] == sorted(words)
    none = set(range(len(ids))) - set(itertools.chain(*positions))
    assert {0, len(ids) - 1} <= none and sum(map(len, positions)) + len(none) == len(ids)
    assert list(itertools.chain(*positions)) == sorted(itertools.chain(*positions))
    assert all(positions)


def test_a_tokenizer_without_characters_is_refused():
    with pytest.raises(HookError, match=r"here: expected a fast tokenizer.*but got SimpleNamespace"):
        encode(SimpleNamespace(is_fast=False), ["a dog"], "here")
