"""The pipelines other tests draw with: seeded, hearing the words, spelling each word of the list as one token."""

import numpy as np
import pytest
import torch

from tests.hooks.conftest import draw
from tests.hooks.transformers import draw as draw_transformer
from tests.tiny import WORDS, tiny_pipeline, tiny_tokenizer
from tests.tiny_transformers import (
    KINDS,
    gemma_tokenizer,
    qwen_tokenizer,
    t5_tokenizer,
    tiny_transformer_pipeline,
)


@pytest.mark.parametrize(
    "kind",
    ["toy", "sdxl", *(pytest.param(kind, marks=() if kind == "sd3" else pytest.mark.slow) for kind in KINDS)],
)
def test_words_alter_the_image_and_a_seed_fixes_the_weights(kind):
    state, images = torch.get_rng_state(), []
    for _ in range(2):
        pipe = tiny_transformer_pipeline(kind) if kind in KINDS else tiny_pipeline(kind)
        assert torch.equal(torch.get_rng_state(), state)
        images.append(draw_transformer(pipe, kind) if kind in KINDS else draw(pipe))
    assert np.array_equal(*images) and np.isfinite(images[0]).all()
    assert np.abs(images[0][0] - images[0][1]).mean() > 0.002


@pytest.mark.parametrize("make", [tiny_tokenizer, t5_tokenizer, gemma_tokenizer, qwen_tokenizer])
def test_a_word_of_the_list_is_one_token(make):
    tokenizer = make()
    assert all(len(tokenizer.tokenize(f"a {word}")) == 2 for word in WORDS)
