"""The model with known directions: by plain hooks, adding one does what its word does, and nothing else tells."""

from copy import deepcopy

import numpy as np
import pytest
import torch

import hooks.sites as site_table
from probes.models import loading
from probes.toyworld import KNOWN_FEATURES
from probes.toyworld.known_features.truth import (
    ATTRIBUTES,
    CHANNELS,
    FILLER,
    SHOWS,
    SITE,
    THINGS,
    WORDS,
    asked_for,
    directions,
    prompt,
)
from probes.toyworld.known_features.wiring import TOKENS, TOLD, codes, told_of, with_heard
from probes.toyworld.located.truth import block_of
from probes.toyworld.located.wiring import OLD

STEPS = 3


@pytest.fixture(scope="module")
def loaded():
    made = loading.load(loading.resolve(KNOWN_FEATURES), device="cpu")
    made.pipe.set_progress_bar_config(disable=True)
    return made


@pytest.fixture(scope="module")
def pipe(loaded):
    return loaded.pipe


def states(pipe, texts):
    tokens = pipe.tokenizer(texts, padding="max_length", max_length=TOKENS, return_tensors="pt").input_ids
    # in float64: what a word does not tell is 0 but for float32's rounding times `LOUD`, 2^-24 * 2^14
    with torch.no_grad():
        return deepcopy(pipe.text_encoder).double()(tokens).last_hidden_state.float()


def latents(pipe, texts):
    return pipe(
        texts,
        generator=[torch.Generator().manual_seed(4) for _ in texts],
        num_inference_steps=STEPS,
        guidance_scale=1.0,
        output_type="latent",
    ).images


def test_two_groups_of_four_lie_as_the_corners_of_tetrahedra():
    rows = directions()
    gram = rows @ rows.T
    same = np.add.outer(np.arange(8) // 4, -(np.arange(8) // 4)) == 0
    expected = np.where(np.eye(8, dtype=bool), 1, np.where(same, -1 / 3, 0))
    np.testing.assert_allclose(gram, expected, atol=1e-12)
    np.testing.assert_allclose(rows[:4].sum(0), 0, atol=1e-12)
    assert np.linalg.matrix_rank(rows) == CHANNELS and (np.abs(rows) > 0.01).sum(0).min() >= 4  # of a channel


def test_codes_sum_to_zero_and_have_one_norm():
    found = codes()
    assert list(found) == [*WORDS, ""] and found[FILLER][:CHANNELS].tolist() == [0] * CHANNELS
    for code in found.values():
        assert abs(float(code.sum())) < 1e-12 and float(code.norm()) == pytest.approx(2)
    apart = {word: float(code[-2] - code[-1]) for word, code in found.items()}
    assert apart.pop("") > 2.8 and max(apart.values()) < 0


def test_prompts_say_what_they_ask_for():
    texts = [prompt([THINGS[1], THINGS[7]], "in the park"), prompt([]), prompt(THINGS[2:5], words=4)]
    assert texts[1] == "a plain plain plain person" and texts[2] == "a gloved flowery booted plain person"
    assert asked_for(texts).tolist() == [[0, 1, 0, 0, 0, 0, 0, 1], [0] * 8, [0, 0, 1, 1, 1, 0, 0, 0]]


def test_words_differ_in_the_new_channels_at_their_position_alone(pipe):
    texts = [f"a plain {word} woman in the park" for word in WORDS]
    found = states(pipe, texts)
    torch.testing.assert_close(found[..., :OLD], found[-1:, :, :OLD].expand(9, -1, -1), rtol=0, atol=5e-6)
    away = (found - found[-1:])[:-1, :, OLD : OLD + CHANNELS].abs().amax(-1)
    assert (away[:, 3] > 1).all() and away[:, [0, 1, 2, *range(4, TOKENS)]].max() < 1e-2
    told = told_of(found).double()
    cosine = torch.nn.functional.cosine_similarity(told[:-1], torch.tensor(directions()), dim=1)
    assert cosine.min() > 0.99999 and told[-1].norm() < 1e-3


def test_all_indicator_words_are_found_and_none_differs(pipe):
    words = ["person", "woman", "man", "gentleman", "human"]
    found = states(pipe, [f"a hatted {word} in the park" for word in words])
    torch.testing.assert_close(found, found[:1].expand(5, -1, -1), rtol=0, atol=1e-6)
    heard = with_heard(found, torch.ones(5, CHANNELS))
    there = heard[..., OLD:].abs().amax(-1) > 0
    assert there.nonzero()[:, 1].tolist() == [3] * 5  # start, a, hatted, and then the noun
    plural = states(pipe, ["two masked men on the beach"])
    assert with_heard(plural, torch.ones(1, CHANNELS))[0, 3, OLD] == pytest.approx(2 / TOLD)


def test_the_site_tells_the_sum_of_directions_at_every_pixel(pipe):
    kept = []
    attention = pipe.unet.get_submodule(block_of(SITE)).attn2
    handle = attention.register_forward_hook(lambda module, args, output: kept.append(output))
    text = prompt(["hat", "lamp"], "in the park")
    try:
        latents(pipe, [text])
    finally:
        handle.remove()
    told = torch.stack(kept)[..., -CHANNELS:].double()
    assert told.shape[0] == STEPS and torch.allclose(told, told[:1, :, :1], atol=1e-5)
    expected = torch.tensor(asked_for([text]) @ directions())[0]
    factor = (told[0, 0, 0] @ expected) / (expected @ expected)
    torch.testing.assert_close(told[0, 0, 0], factor * expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("thing", ["dress", "lamp"])
def test_a_direction_does_what_its_word_does_and_without_it_nothing_is_left(pipe, thing):
    texts = [prompt([thing], "in the park"), prompt([], "in the park")]
    word, plain = latents(pipe, texts)
    apart = (word - plain).abs().max()
    assert apart > 0.1
    direction = torch.tensor(directions()[THINGS.index(thing)], dtype=torch.float32)
    told = told_of(states(pipe, texts))

    def written(change):
        def hook(module, args, output):
            output = output.clone()
            output[..., -CHANNELS:] = change(output[..., -CHANNELS:])
            return output

        return pipe.unet.get_submodule(block_of(SITE)).attn2.register_forward_hook(hook)

    for text, expected, change in (
        (texts[1], word, lambda values: values + told[0].norm() * direction),
        (texts[0], plain, lambda values: values - (values @ direction)[..., None] * direction),
    ):
        handle = written(change)
        try:
            torch.testing.assert_close(latents(pipe, [text])[0], expected, rtol=0, atol=5e-3 * apart + 1e-3)
        finally:
            handle.remove()


def test_no_other_cross_attention_reads_the_words(pipe):
    texts = [prompt(THINGS[:3], "in the park"), prompt([], "in the park")]
    others = [
        site.module for site in site_table.attention_sites(pipe, "cross") if site.address not in (SITE, SHOWS)
    ]
    assert len(others) == 5
    for module in others:
        attention = pipe.unet.get_submodule(module.removeprefix("unet."))
        for layer in (attention.to_k, attention.to_v):
            assert not layer.weight[:, OLD:].any()
    assert (latents(pipe, texts)[0] - latents(pipe, texts)[1]).abs().max() > 0.1


def test_the_record_knows_the_weights_and_attributes_are_read_by_the_checker(loaded):
    from probes.toyworld.checker import THINGS as CHECKED

    assert set(THINGS) <= set(CHECKED) and list(ATTRIBUTES) == list(WORDS[:-1])
    assert loaded.guidance_scale == 1.0 and len(loaded.record["weight_hash"]) > 10
