"""The pipelines other tests draw with: seeded, saved and loaded alike, tokenizing any text."""

import numpy as np
import pytest
import torch

from tests.tiny import WORDS, tiny_pipeline, tiny_tokenizer


def draw(pipe):
    generator = [torch.Generator().manual_seed(3) for _ in range(2)]
    prompts = ["a person holding an umbrella", "a woman holding an umbrella"]
    return pipe(prompt=prompts, generator=generator, num_inference_steps=2, output_type="np").images


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_saved_and_loaded_pipelines_draw_the_same(kind, tmp_path):
    pipe = tiny_pipeline(kind)
    images = draw(pipe)
    assert images.shape == ((2, 64, 64, 3) if kind == "toy" else (2, 32, 32, 3))
    assert np.abs(images[0] - images[1]).mean() > 0.005, "the words should alter the image"
    pipe.save_pretrained(tmp_path)
    loaded = type(pipe).from_pretrained(tmp_path)
    loaded.set_progress_bar_config(disable=True)
    assert np.array_equal(draw(loaded), images)
    assert loaded.tokenizer.model_max_length == (32 if kind == "toy" else 77)


def test_seed_fixes_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(11)
    state = torch.get_rng_state()
    first, again, other = tiny_pipeline("toy"), tiny_pipeline("toy"), tiny_pipeline("toy", seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    for a, b, c in zip(
        first.unet.parameters(), again.unet.parameters(), other.unet.parameters(), strict=True
    ):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_a_word_of_the_list_is_one_token():
    tokenizer = tiny_tokenizer()
    assert {word: tokenizer.tokenize(word) for word in WORDS} == {word: [word + "</w>"] for word in WORDS}


def test_no_text_fails():
    tokenizer = tiny_tokenizer()
    for text in ("", "xylophone", "été ☃", "\x00\x7f", "A" * 500):
        ids = tokenizer(text).input_ids
        assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
        assert not {tokenizer.bos_token_id, tokenizer.eos_token_id} & {*ids[1:-1]}
