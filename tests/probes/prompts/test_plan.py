"""The plan: articles, words and their tokens, shared positions, and prompts a tokenizer cannot take."""

from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.sample import shared_word_indices, tokenize
from probes.stages.plan import plan
from tests.tiny import tiny_tokenizer

WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer(16)


def planned(tokenizer, **fields):
    return plan(Config(**fields), [tokenizer])


def test_words_have_their_tokens(tokenizer):
    text = "a  person's zebra, (with) a DOG."
    (found,) = tokenize([text], tiny_tokenizer(32), lambda _: "here")
    assert found.words == ("a", "person's", "zebra", "with", "a", "DOG")
    assert [text[a:b] for a, b in found.spans] == list(found.words)
    assert found.tokens[0] == tokenizer.bos_token
    assert found.tokens[-1] == tokenizer.eos_token
    spelled = ["".join(found.tokens[i] for i in where).replace("</w>", "") for where in found.word_positions]
    assert spelled == ["a", "person's", "zebra", "with", "a", "dog"]
    assert len(found.word_positions[2]) > 1  # a word outside the vocabulary is several tokens
    flat = [i for where in found.word_positions for i in where]
    assert flat == sorted(set(flat))


def test_shared_words_leave_the_indicator_and_the_mended_article_out(tokenizer):
    samples = planned(
        tokenizer,
        prompts=["a {person} with a dog"],
        indicators={"neutral": "person", "other": "individual", "female": "female doctor"},
    )
    shared = [[s.tokens[i] for i in s.shared_positions] for s in samples]
    assert shared == [["with</w>", "a</w>", "dog</w>"]] * 3
    assert [[s.tokens[i] for i in s.indicator_positions] for s in samples] == [
        ["person</w>"],
        ["individual</w>"],
        ["female</w>", "doctor</w>"],
    ]
    assert samples[2].shared_positions[0] == samples[0].shared_positions[0] + 1


def test_a_word_equal_to_the_indicator_elsewhere_is_shared():
    assert shared_word_indices([["man", "and", "man"], ["woman", "and", "man"]], [{0}, {0}]) == [
        (1, 2),
        (1, 2),
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(st.integers(1, 3), min_size=10, max_size=10))
def test_the_same_rest_is_that_of_the_longest_matching_blocks(runs, lengths):
    """Runs of shared words between the indicators' own, of which each text has as many as it likes."""
    texts, apart = [], []
    for name, counts in (("x", lengths[:5]), ("y", lengths[5:])):
        words, blocked = [], set()
        for run, count in zip(runs, counts):
            blocked |= set(range(len(words), len(words) + count))
            words += [f"{name}{len(words) + i}" for i in range(count)] + run
        texts.append(words)
        apart.append(blocked)
    found = shared_word_indices(texts, apart)
    blocks = SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
    expected = [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]
    assert list(zip(*found)) == expected
    assert expected


def test_free_captions(tokenizer):
    caption = {
        "id": "x",
        "neutral": "a doctor",
        "feminine": "a female doctor",
        "masculine": "a man who plays doctor",
    }
    samples = planned(tokenizer, prompts=[caption])
    assert [s.prompt for s in samples] == ["a doctor", "a female doctor", "a man who plays doctor"]
    assert {s.prompt_id for s in samples} == {"x"}
    assert {s.template for s in samples} == {""}
    assert [[s.tokens[i] for i in s.shared_positions] for s in samples] == [["a</w>", "doctor</w>"]] * 3
    assert [s.tokens[s.indicator_positions[0]] for s in samples[1:]] == ["female</w>", "man</w>"]


def test_order_and_ids(tokenizer):
    samples = planned(
        tokenizer, prompts=["a {person}", "the {person}", "one {person}"], seeds=[4, 2], limit=2
    )
    assert [s.sample_id for s in samples[:4]] == [
        "t00000-s4-neutral",
        "t00000-s4-feminine",
        "t00000-s4-masculine",
        "t00000-s2-neutral",
    ]
    assert len(samples) == 2 * 2 * 3
    assert (samples[-1].triplet, samples[-1].prompt_id, samples[-1].template) == (1, "p001", "the {person}")


def test_prompt_longer_than_the_tokenizer_takes(tokenizer):
    longest = "a {person}" + " dog" * 12
    assert len(planned(tokenizer, prompts=[longest])[0].tokens) == 16
    with pytest.raises(UserError, match=r"prompts\[1\] \(neutral\): expected at most 16 tokens .* got 17"):
        planned(tokenizer, prompts=["a {person}", longest + " dog"])
    with pytest.raises(UserError, match="at most 9 tokens"):
        plan(Config(prompts=[longest]), [tiny_tokenizer(77)], 9)
    with pytest.raises(UserError, match="negative_prompt: expected at most 16"):
        planned(tokenizer, prompts=["a {person}"], sampler={"negative_prompt": "dog " * 30})


def test_a_control_token_in_a_prompt_is_refused(tokenizer):
    with pytest.raises(UserError, match="can spell"):
        planned(tokenizer, prompts=["a {person} <|endoftext|> dog"])


def test_noise_of_its_own_for_each_image(tokenizer):
    """Shared within a triplet by default; with `independent` no two images start from one noise, the same each time."""
    prompts = ["a {person} in a hat", "a {person} in a coat"]
    fields = {"prompts": prompts, "seeds": [0, 1]}

    def seeds(noise):
        found = planned(tokenizer, **fields, sampler={"noise": noise})
        return {(sample.triplet, sample.seed, sample.indicator): sample.noise_seed for sample in found}

    own, independent = seeds("own"), seeds("independent")
    assert all(noise == seed for (_, seed, _), noise in seeds("shared").items())
    assert len(set(own.values())) == 4 and len(set(independent.values())) == len(independent) == 12
    assert not set(own.values()) & set(independent.values())
    assert independent == seeds("independent")
    one = planned(tokenizer, prompts=prompts[1:], seeds=[1], sampler={"noise": "independent"})
    assert {sample.noise_seed for sample in one} == {
        seed for (triplet, number, _), seed in independent.items() if (triplet, number) == (1, 1)
    }
