"""Tiny diffusion transformers: seeded, saved and loaded alike, hearing the words."""

import json

import diffusers
import numpy as np
import pytest
import torch

from tests.tiny import WORDS
from tests.tiny_transformers import (
    KINDS,
    ROWS,
    call_options,
    gemma_tokenizer,
    qwen_tokenizer,
    t5_tokenizer,
    tiny_transformer_pipeline,
)

PROMPTS = ["a person holding an umbrella", "a woman holding an umbrella"]


def generate(pipe, kind):
    generator = [torch.Generator().manual_seed(3) for _ in PROMPTS]
    with torch.no_grad():
        return pipe(
            prompt=list(PROMPTS),
            generator=generator,
            num_inference_steps=2,
            output_type="np",
            **call_options(kind),
        ).images


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "sd3" else pytest.mark.slow) for kind in KINDS]
)
def test_saved_and_loaded_pipelines_generate_the_same(kind, tmp_path):
    state = torch.get_rng_state()
    pipe = tiny_transformer_pipeline(kind)
    assert torch.equal(torch.get_rng_state(), state)
    images = generate(pipe, kind)
    size = ROWS[kind].size
    assert images.shape == (2, size, size, 3)
    assert np.isfinite(images).all() and images.std() > 0.02
    assert np.abs(images[0] - images[1]).mean() > 0.002, "the words should alter the image"
    assert np.array_equal(generate(tiny_transformer_pipeline(kind), kind), images)
    pipe.save_pretrained(tmp_path)
    index = json.loads((tmp_path / "model_index.json").read_text())
    assert index["_class_name"] == ROWS[kind].pipeline
    assert (tmp_path / "transformer" / "diffusion_pytorch_model.safetensors").is_file()
    for name in index:
        if name.startswith("tokenizer"):
            assert (tmp_path / name / "tokenizer.json").is_file()
    loaded = diffusers.DiffusionPipeline.from_pretrained(tmp_path)
    loaded.set_progress_bar_config(disable=True)
    assert np.array_equal(generate(loaded, kind), images)


@pytest.mark.parametrize(
    ("tokenizer", "before"), [(t5_tokenizer, "▁"), (gemma_tokenizer, "▁"), (qwen_tokenizer, "Ġ")]
)
def test_each_word_of_the_list_is_one_token(tokenizer, before):
    tokenizer = tokenizer()
    assert {word: tokenizer.tokenize("a " + word)[1:] for word in WORDS} == {
        word: [before + word] for word in WORDS
    }
    assert len(tokenizer.tokenize("a xylophone")) > 3


def test_the_template_of_qwen_image_has_the_tokens_that_the_pipeline_drops():
    pipe = tiny_transformer_pipeline("qwen-image")
    before = pipe.prompt_template_encode.split("{}")[0]
    assert len(pipe.tokenizer(before).input_ids) == pipe.prompt_template_encode_start_idx == 34
