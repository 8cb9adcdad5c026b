"""Words, not substrings: what is found where, and what is refused."""

import numpy as np
import pytest
import torch

from hooks import HookError, Probe, words
from hooks.architectures.registry import architecture_of
from hooks.architectures.unet import UNet
from hooks.prompt.given import prompt_tokenizers, use_system_prompt
from hooks.prompt.spans import split_words
from hooks.prompt.wordlist import Word, find, lower
from tests.hooks.conftest import draw
from tests.hooks.transformers import draw as draw_dit
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
    assert find(found, " WOMAN, ") == at["woman", 0], "and not the saleswoman's"
    for missing in ("sales", "hat and woman", "person 4"):
        with pytest.raises(HookError, match="is no word of this prompt, which has a, woman, s, hat"):
            find(found, missing)
    with pytest.raises(HookError, match="expected letters or digits, but got '!'"):
        find(found, "!")
    with pytest.raises(HookError, match=r"occurrence: expected a number below the 1 of .*, but got 1"):
        find(found, "woman", 1)


@pytest.mark.parametrize("wanted", ["t-shirt", "person's", "Non binary"])
def test_words_that_a_run_keeps_whole(wanted):
    whole = [text for text, _ in split_words("1girl in a non-binary person's t-shirt")]
    kept = [Word(text, lower(text), 0, (0, 0), (place,)) for place, text in enumerate(whole)]
    assert find(kept, wanted) == (whole.index(lower(wanted).replace(" ", "-")),)
    for part in ("non", "girl", "shirt in"):
        with pytest.raises(HookError, match="is no word of this prompt"):
            find(kept, part)


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


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
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
    with Probe(toy, sites="latent", word_maps=True) as probe:
        draw(toy, None, **embeds)
    for read in (probe.words, lambda: probe.word_map("woman")):
        with pytest.raises(HookError, match=r"texts are not known.*prompt_embeds.*a Word of hooks\.words"):
            read()
    by_position = probe.word_map([2])
    assert by_position.word == "#2"
    named = probe.word_map(words(toy, prompts)[1])
    assert named.word == "woman"
    np.testing.assert_array_equal(named.values, by_position.values)
    np.testing.assert_array_equal(probe.word_map(2).values, probe.maps.heat(0)[2])


def test_textual_inversion():
    """A placeholder, of one vector or of several, ends where it ends, with the texts given and without."""
    pipe = tiny_pipeline("sdxl")
    for suffix in ("", "_2"):
        parts = {part: getattr(pipe, f"{part}{suffix}") for part in ("tokenizer", "text_encoder")}
        for token, vectors in (("<cat-toy>", 1), ("<style>", 3)):
            states = torch.randn(vectors, parts["text_encoder"].config.hidden_size)
            pipe.load_textual_inversion(states, token=token, **parts)
    prompts = ["a <cat-toy> dog in a garden", "<style>, a <cat-toy>umbrella 42"]
    for given in (prompts, None):
        with Probe(pipe, sites="latent", word_maps=True, prompts=given) as probe:
            draw(pipe, prompts, num_inference_steps=1)
        first, second = (
            [(word.lower, word.positions) for word in probe.words(row) if word.encoder == "text"]
            for row in (0, 1)
        )
        positions = [(2,), (2,), (3,), (4,), (5,), (6,)]
        assert first[1:] == [*zip(["cat", "toy", "dog", "in", "a", "garden"], positions)]
        positions = [(1, 2, 3), (5,), (6,), (6,), (7,), (8, 9)]
        assert second == [*zip(["style", "a", "cat", "toy", "umbrella", "42"], positions)]
        assert probe.word_map("<cat-toy>").positions == (2,)


def test_an_inversion_in_one_of_two_encoders():
    pipe, layout = tiny_pipeline("sdxl"), next(one for one in UNet.layouts if len(one.tokenizers) == 2)
    pipe.load_textual_inversion(torch.randn(1, 16), token="<cat-toy>")  # into the first
    with Probe(pipe, sites="latent", word_maps=True) as probe:
        draw(pipe, ["a <cat-toy> dog", "a dog"], num_inference_steps=1)
    assert probe.word_map("dog", row=1).positions == (2,)
    for word in ("dog", "cat"):
        with pytest.raises(
            HookError, match=r"at tokens \[\d\] of text but \[.*\] of text_2.*into both encoders"
        ):
            probe.word_map(word)
    with pytest.raises(HookError, match="same tokens of all text encoders"):
        probe.token_heat({"text": (3,), "text_2": (8,)}, 0)
    with pytest.raises(
        HookError, match="same added words in tokenizer and tokenizer_2, but got '<cat-toy>' in one"
    ):
        prompt_tokenizers(layout, [pipe.tokenizer, pipe.tokenizer_2])


def test_a_word_of_the_list_and_rows(toy):
    with Probe(toy, sites="latent", word_maps=True) as probe:
        draw(toy, ["a dog", "a cat, a cat"], num_inference_steps=1)
    assert probe.maps.columns == ((1, 2), (1, 2, 3, 4, 5))
    cat = probe.words(row=1)[1]
    np.testing.assert_array_equal(probe.word_map(cat, row=1).values, probe.maps.heat(1)[1])
    with pytest.raises(HookError, match="row: expected one of the batch's 2 rows, but got 2"):
        probe.word_map("cat", row=2)
    message = r"positions: expected some of \[1, 2\], .* but got \[3\]: pass map_tokens='all' to Probe"
    for positions in ([2, 3], 3):
        with pytest.raises(HookError, match=message):
            probe.word_map(positions)
    with pytest.raises(HookError, match=r"but got \[\]"):
        probe.word_map([])


@pytest.mark.parametrize(
    ("kind", "system"),
    [("sana", None), ("sana", "Draw a park: "), ("qwen-image", None), ("ovis-image", None)],
)
def test_words_within_a_template_are_those_before_the_block(dit, kind, system):
    """Also where letters are composed anew, and where the pipeline cuts the text behind its template."""
    pipe, prompts = dit(kind), ["A Woman's E\u0301te\u0301, 日本", "umbrella " * 400 + "in a park"]
    with (
        Probe(pipe, sites="latent", word_maps=True, prompts=prompts, system_prompt=system) as probe,
        use_system_prompt(pipe, architecture_of(pipe).layouts[0], system) as given,
    ):
        draw_dit(pipe, kind, prompts, num_inference_steps=1, **given)
    found = probe.words()
    assert [word.text for word in found if word.prompt == 0] == ["A", "Woman", "s", "E\u0301te\u0301", "日本"]
    cut = kind != "qwen-image"  # which takes 1,024 tokens
    assert [word.cut_off for word in found if word.prompt][-4:] == [cut] * 4
    if system is None:
        assert found == words(pipe, prompts)
    with (
        pytest.raises(HookError, match=r"prompts\[1\]: expected the texts that were drawn"),
        Probe(pipe, sites="latent", word_maps=True, prompts=[prompts[0], "a dog"], system_prompt=system),
        use_system_prompt(pipe, architecture_of(pipe).layouts[0], system) as given,
    ):
        draw_dit(pipe, kind, prompts, num_inference_steps=1, **given)
