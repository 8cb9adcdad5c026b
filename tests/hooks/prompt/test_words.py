"""Words, not substrings: what is found where, and what is refused."""

import numpy as np
import pytest
import torch

from hooks import HookError, Probe, words
from hooks.prompt.spans import split_pieces
from hooks.prompt.wordlist import find
from tests.hooks.conftest import draw
from tests.tiny import tiny_pipeline

HATS = "A Woman's hat, the saleswoman's HAT and a non-binary person (42)"


def listed(pipe, prompt, encoder="text"):
    return [word for word in words(pipe, prompt) if word.encoder == encoder]


def tokens_of(pipe, word):
    """The characters of a word's tokens, by the tokenizer's own names for them."""
    names = pipe.tokenizer.convert_ids_to_tokens(pipe.tokenizer(HATS).input_ids)
    return "".join(names[p] for p in word.positions).replace("</w>", "")


def test_words_by_the_characters_of_their_tokens(toy):
    found = listed(tiny_pipeline("sd1"), HATS)
    lower = [
        "a",
        "woman",
        "s",
        "hat",
        "the",
        "saleswoman",
        "s",
        "hat",
        "and",
        "a",
        "non",
        "binary",
        "person",
        "42",
    ]
    assert [word.lower for word in found] == lower
    assert [HATS[a:b] for a, b in (word.span for word in found)] == [word.text for word in found]
    for word in found:
        if word.lower != "s":  # its token takes the apostrophe's place as well
            assert tokens_of(toy, word) == word.lower
    hats = [word for word in found if word.lower == "hat"]
    assert [(word.text, word.occurrence) for word in hats] == [("hat", 0), ("HAT", 1)]
    assert len(found[lower.index("saleswoman")].positions) > 1
    assert not any(word.cut_off for word in found)


@pytest.mark.parametrize("wanted", ["woman", "Woman", "WOMAN", " woman, "])
def test_a_word_is_no_substring(wanted):
    pipe = tiny_pipeline("sd1")
    found = listed(pipe, HATS)
    assert find(found, wanted) == found[1].positions
    with pytest.raises(HookError, match=r"occurrence: expected a number below the 1 of .*, but got 1"):
        find(found, wanted, 1)


def test_phrases_and_occurrences():
    pipe = tiny_pipeline("sd1")
    found = listed(pipe, HATS)
    at = {(word.lower, word.occurrence): word.positions for word in found}
    first, second = at["hat", 0], at["hat", 1]
    assert find(found, "hat") == (*first, *second)
    assert find(found, "hat", 0) == first
    assert find(found, "hat", 1) == second
    binary = find(found, "non-binary")
    assert binary == tuple(range(at["non", 0][0], at["binary", 0][-1] + 1)), "with the hyphen between"
    assert find(found, "Non Binary Person") == (*binary, *at["person", 0])
    assert find(found, "42") == at["42", 0]
    assert len(at["42", 0]) == 2, "CLIP reads digits one by one"
    for missing in ("sales", "hat and woman", "person 4"):
        with pytest.raises(HookError, match="is no word of this prompt, which has a, woman, s, hat"):
            find(found, missing)
    with pytest.raises(HookError, match="expected letters or digits, but got '!'"):
        find(found, "!")


def test_accents_and_other_scripts():
    text = "un été E\u0301te\u0301 日本 x"
    assert [text[a:b] for a, b in split_pieces(text)] == ["un", "été", "E\u0301te\u0301", "日本", "x"]
    found = listed(tiny_pipeline("sd1"), text)
    assert find(found, "ÉTÉ") == (*found[1].positions, *found[2].positions)
    joined = [p for word in found for p in word.positions]
    assert joined == list(range(1, len(joined) + 1)), "every token belongs to one word"


def test_words_beyond_the_limit_are_listed_as_cut_off(toy):
    prompt = "umbrella " * 28 + "guitar saleswoman person"  # 32 positions: 30 are the prompt's
    found = listed(toy, prompt)
    assert [word.cut_off for word in found] == [False] * 29 + [True] * 2
    assert found[29].positions == (30,), "of its six tokens one is left"
    assert found[30].positions == ()
    assert find(found, "guitar") == (29,)
    for word in ("saleswoman", "person"):
        with pytest.raises(HookError, match="is cut off"):
            find(found, word)
    with Probe(toy, sites="latent", word_maps=True, prompts=[prompt]) as probe:
        draw(toy, [prompt], num_inference_steps=1)
    assert probe.words() == found
    with pytest.raises(HookError, match="'person' is cut off"):
        probe.word_map("person")


@pytest.mark.parametrize("kind", ["toy", "sd2", "sdxl"])
def test_words_after_the_block(pipelines, kind):
    """With the texts given, as before the block; without, read off the ids."""
    pipe = pipelines(kind)
    prompts = ["A Woman's hat, the saleswoman", "an umbrella 42, an umbrella"]
    before = words(pipe, prompts)
    found = {}
    for given in (prompts, None):
        with Probe(pipe, sites="latent", word_maps=True, prompts=given) as probe:
            draw(
                pipe,
                prompts,
                num_images_per_prompt=2,
                num_inference_steps=1,
                negative_prompt=["a red car", "dog"],
            )
        found[given is None] = probe
        assert probe.words(row=3) == [word for word in probe.words() if word.prompt == 1]
        assert probe.word_map("woman", row=1).positions == (2,)
        assert probe.word_map("umbrella", row=2).positions == (2, 7)
        assert probe.word_map("umbrella", row=2, occurrence=1).positions == (7,)
        with pytest.raises(HookError, match="is no word of this prompt"):
            probe.word_map("umbrella", row=0)
    assert found[False].words() == before
    for known, guessed in zip(before, found[True].words(), strict=True):
        assert guessed.text == known.lower
        assert (guessed.occurrence, guessed.prompt, guessed.encoder) == (
            known.occurrence,
            known.prompt,
            known.encoder,
        )
        if known.lower != "s":
            assert guessed.positions == known.positions
    assert {word.encoder for word in before} == ({"text", "text_2"} if kind == "sdxl" else {"text"})


def test_another_prompt_for_the_second_encoder(pipelines):
    pipe = pipelines("sdxl")
    with Probe(pipe, sites="latent", word_maps=True, prompts=["a red car"]) as probe:
        draw(pipe, ["a red car"], prompt_2=["the dog holding an umbrella"], num_inference_steps=1)
    by_encoder = {word.encoder: [] for word in probe.words()}
    for word in probe.words():
        by_encoder[word.encoder].append(word.lower)
    assert by_encoder == {"text": ["a", "red", "car"], "text_2": ["the", "dog", "holding", "an", "umbrella"]}
    assert probe.word_map("umbrella").positions == (5,)


def test_embeds_have_positions_and_no_words(toy):
    prompts = ["a woman in a red hat"]
    ids = toy.tokenizer(prompts, padding="max_length", return_tensors="pt").input_ids
    with torch.no_grad():
        embeds = {
            "prompt_embeds": toy.text_encoder(ids)[0],
            "negative_prompt_embeds": torch.zeros(1, 32, 32),
        }
    runs = []
    for given in (None, prompts):
        with Probe(toy, sites="latent", word_maps=True, prompts=given) as probe:
            draw(toy, None, **embeds)
        runs.append(probe)
    nameless, named = runs
    for read in (nameless.words, lambda: nameless.word_map("woman")):
        with pytest.raises(HookError, match=r"texts are not known.*prompt_embeds.*pass prompts="):
            read()
    by_position = nameless.word_map([2])
    assert by_position.word == "#2"
    np.testing.assert_array_equal(named.word_map("woman").values, by_position.values)
    np.testing.assert_array_equal(nameless.word_map(2).values, nameless.maps.heat(0)[2])
    with Probe(toy, sites="latent", word_maps=True) as usual:
        draw(toy, prompts, negative_prompt=["dog"])
    assert usual.maps.values.shape == named.maps.values.shape


def test_prompts_that_were_not_drawn(toy):
    with Probe(toy, sites="latent", word_maps=True, prompts=["a dog", "a hat"]) as probe:
        draw(toy, ["a dog", "a cat"], num_inference_steps=1)
    with pytest.raises(HookError, match=r"prompts\[1\]: expected the texts that were drawn"):
        probe.words()
    with (
        pytest.raises(HookError, match=r"prompts: expected as many as the batch has \(3 rows\), but got 2"),
        Probe(toy, sites="latent", word_maps=True, prompts=["a dog", "a hat"]),
    ):
        draw(toy, ["a dog"] * 3, num_inference_steps=1)


def test_a_word_of_the_list_and_rows(toy):
    with Probe(toy, sites="latent", word_maps=True) as probe:
        draw(toy, ["a dog", "a cat"], num_inference_steps=1)
    cat = probe.words(row=1)[1]
    np.testing.assert_array_equal(probe.word_map(cat, row=1).values, probe.maps.heat(1)[2])
    with pytest.raises(HookError, match="row: expected one of the batch's 2 rows, but got 2"):
        probe.word_map("cat", row=2)
    with pytest.raises(HookError, match="positions: expected some of 0 to 31, but got"):
        probe.word_map(40)


def test_a_slow_tokenizer_is_refused(toy):
    class Slow:
        model_max_length, is_fast = 32, False

    pipe = tiny_pipeline("toy")
    pipe.register_modules(tokenizer=None)
    pipe.tokenizer = Slow()
    with pytest.raises(HookError, match=r"expected a fast tokenizer.*but got Slow"):
        words(pipe, "a dog")
