"""Texts read by their chunks: against the tokenizer's reading of the whole, and never for another tokenizer."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers, processors

from hooks import HookError
from hooks.prompt.spans import encode, split_words, token_positions
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts import chunks, tokens
from probes.prompts.chunks import Chunks, splits_at_spaces
from probes.prompts.plan import count, plan
from probes.prompts.tokens import tokenize, tokenize_all
from tests.hooks.prompt.test_spans import CHUNKS, KINDS, TEXTS, tokenizer
from tests.tiny import tiny_tokenizer

# beside what a prompt is made of: what joins or parts under Unicode's rules, and a tokenizer's own marks
EDGES = st.sampled_from(
    [
        *("\u0301", "\u0301a", "\u3099", "ΑΣ", "Σ", "İ", "\ufb01", "'s", "'", "!", "1", "\u180e"),
        *("\u1100", "\u1161", "\ufeff", "\u0345", "\u0130\u0301"),
        *("<|endoftext|>", "a<|startoftext|>b", "<|endof", "text|>"),
    ]
)
SPACED = st.lists(st.tuples(st.one_of(CHUNKS, EDGES), st.sampled_from([" ", " ", "  ", "", "\n", "\xa0"])))
ALL = st.one_of(TEXTS, SPACED.map(lambda found: "".join(map("".join, found))))


@pytest.fixture(scope="module")
def tokenizers():
    """CLIP's in kind, and one whose padding is an added token, as SD 2's and SDXL's second."""
    return {kind: tokenizer(kind) for kind in KINDS} | {"sd2": tiny_tokenizer(100_000, pad_token="!")}


@settings(max_examples=300, deadline=None)
@given(st.lists(ALL, min_size=1, max_size=6))
@example(["a  person's zebra, (with) a DOG.", "", " ", " a", "a "])
def test_a_text_read_by_chunks_is_the_text_read_as_a_whole(tokenizers, texts):
    for one in tokenizers.values():
        known = Chunks.of(texts, one, "here")
        assert known
        for text, (ids, offsets) in zip(texts, encode(one, texts, "here"), strict=True):
            read = known.text(text)
            spelled = not {one.bos_token_id, one.eos_token_id} & {*ids[1:-1]}
            plain = all(chunk.split() == [chunk] for chunk in text.split(" ") if chunk)
            assert (read is not None) == (spelled and plain)
            if read:
                words = split_words(text)
                assert read.tokens == tuple(one.convert_ids_to_tokens(ids))
                assert read.words == tuple(word for word, _ in words)
                assert read.spans == tuple(span for _, span in words)
                assert read.word_positions == tuple(token_positions(offsets, span) for _, span in words)


@settings(max_examples=100, deadline=None)
@given(st.lists(ALL.filter(str.strip), min_size=2, max_size=6))
def test_samples_are_the_same_by_chunks_and_directly(tokenizers, captions):
    prompts = [
        {"id": str(i), "neutral": f"person {text}", "feminine": f"woman {text}", "masculine": f"man {text}"}
        for i, text in enumerate(captions)
    ]
    config = Config.model_construct(**{**dict(Config(prompts=["a {person}"])), "prompts": prompts})
    both = [tokenizers["toyworld"], tokenizers["sd2"]]

    def done(work, threshold):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "BY_CHUNKS", threshold)
            try:
                return work(config, both)
            except UserError as error:
                return str(error)

    samples = done(plan, 0)
    assert samples == done(plan, 10**9)
    expected = samples if isinstance(samples, str) else len(samples)
    assert expected == done(count, 0) == done(count, 10**9)


def test_toyworlds_and_a_tiny_clip_tokenizer_are_read_by_chunks(tokenizers):
    assert all(map(splits_at_spaces, tokenizers.values()))


@pytest.mark.parametrize(
    "alter",
    [
        lambda one: setattr(one.backend_tokenizer, "normalizer", normalizers.NFC()),
        lambda one: setattr(one.backend_tokenizer, "normalizer", normalizers.Strip()),
        lambda one: setattr(one.backend_tokenizer, "pre_tokenizer", pre_tokenizers.Metaspace()),
        lambda one: setattr(
            one.backend_tokenizer, "pre_tokenizer", pre_tokenizers.Split(Regex(r"\w+ \w+"), "isolated")
        ),
        lambda one: setattr(
            one.backend_tokenizer,
            "post_processor",
            processors.TemplateProcessing(single="$A", special_tokens=[]),
        ),
        lambda one: one.add_tokens([AddedToken("a dog")]),
        lambda one: one.add_tokens([AddedToken("dog", single_word=True)]),
        lambda one: one.add_tokens([AddedToken("dog", lstrip=True)]),
        lambda one: setattr(one.backend_tokenizer.model, "dropout", 0.5),
    ],
)
def test_a_tokenizer_built_otherwise_is_not(alter):
    one = tiny_tokenizer(100_000)
    alter(one)
    assert not splits_at_spaces(one)
    assert Chunks.of(["a dog"], one, "here") is None


def test_an_added_token_within_a_chunk_is_read_as_the_tokenizer_does():
    one = tiny_tokenizer(100_000)
    one.add_tokens([AddedToken("<cat>"), AddedToken("zebra", normalized=True)])
    texts = ["a <cat> and a ZEBRAS", "<cat><cat> zebrazebra"]
    known = Chunks.of(texts, one, "here")
    assert [known.text(text).tokens for text in texts] == [
        tuple(one.convert_ids_to_tokens(ids)) for ids, _ in encode(one, texts, "here")
    ]


def test_texts_are_read_directly_where_a_few_compared_differ(monkeypatch):
    one = tiny_tokenizer(100_000)
    texts = ["a dog", "a cat"]
    assert Chunks.of(texts, one, "here")

    def otherwise(tokenizer, asked, place):
        """As if whole texts, unlike chunks, were read backwards."""
        return [
            (ids[:: -1 if " " in text else 1], at)
            for text, (ids, at) in zip(asked, encode(tokenizer, asked, place))
        ]

    monkeypatch.setattr(chunks, "encode", otherwise)
    assert Chunks.of(texts, one, "here") is None


def test_what_cannot_be_read_is_said_as_of_a_single_text(tokenizers, monkeypatch):
    monkeypatch.setattr(tokens, "BY_CHUNKS", 0)
    one = tokenizers["tiny"]
    place = "prompts[{}]".format
    for texts, limit, fault in (
        (["a dog", "a dog a dog"], 4, r"prompts\[1\]: expected at most 4 tokens with start and end, got 6"),
        (["a dog", "a\tdog a dog"], 4, r"prompts\[1\]: expected at most 4 tokens with start and end, got 6"),
        (["a dog", "a <|endoftext|>"], None, r"prompts\[1\]: expected words the tokenizer can spell"),
    ):
        with pytest.raises(UserError, match=fault) as by_chunks:
            tokenize_all(texts, one, place, limit)
        with pytest.raises(UserError) as alone:
            tokenize(texts[1], one, place(1), limit)
        assert str(by_chunks.value) == str(alone.value)
    assert tokenize_all(["a\tdog", "a dog"], one, place)[0] == tokenize("a\tdog", one, "here")


def test_a_tokenizer_without_offsets_is_refused(monkeypatch):
    monkeypatch.setattr(tokens, "BY_CHUNKS", 0)
    slow = SimpleNamespace(is_fast=False, model_max_length=77)
    with pytest.raises(HookError, match="fast tokenizer"):
        Chunks.of(["a dog"], slow, "here")
    with pytest.raises(UserError, match="here: expected a fast tokenizer"):
        tokenize_all(["a dog"], slow, lambda _: "here")
