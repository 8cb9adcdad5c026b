"""The bundled benchmark models: layout, size, and that each does what it was taught, on a small sample."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open

from lab.train.base.measure import WEIGHTS, benchmark_pipeline, sample
from probes.models import loading
from probes.toyworld import BENCHMARK_MODELS, REGISTRY, TRANSFORMERS, bundled_folder
from probes.toyworld.checker import read_images

STEPS = 16


@pytest.mark.parametrize("name", REGISTRY)
def test_what_is_published_was_measured_on_the_weights_that_are_stored(name):
    loaded = loading.load(loading.resolve(name), device="cpu")
    measured = [json.loads(file.read_text()) for file in bundled_folder(name).glob("[qc]*.json")]
    assert measured and {one.get("weight_hash", loaded.record["weight_hash"]) for one in measured} == {
        loaded.record["weight_hash"]
    }
    if name in TRANSFORMERS or REGISTRY[name].group == "wired":
        assert loaded.guidance_scale == 1.0
    else:
        assert loading.resolve(name).token_limit == 32


def test_weights_are_small_half_precision_safetensors():
    files = [path for path in WEIGHTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 62e6
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".txt"}
    for path in files:
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as weights:
                types = {weights.get_tensor(name).dtype for name in weights.keys()}  # noqa: SIM118
                assert (
                    torch.float16 in types <= {torch.float16, torch.int64}
                )  # tables of places are whole numbers


@pytest.mark.parametrize(
    "name", [BENCHMARK_MODELS[0], TRANSFORMERS[0], pytest.param(TRANSFORMERS[1], marks=pytest.mark.lab)]
)
def test_named_things_are_drawn(name):
    pipeline, scale = benchmark_pipeline(WEIGHTS / name)
    prompts = {
        "dress": "a man in a dress",
        "bike": "an individual riding a bike",
        "hat": "a lady in a hat",
        "beach": "a human on the beach",
        "forest": "an adult in the forest",
        "kitchen": "a figure in the kitchen",
    }
    images = sample(
        pipeline, [*prompts.values()] * 2, range(12), steps=STEPS, guidance_scale=scale, progress=False
    )
    seen = read_images(images)
    assert np.mean([seen.loc[row, noun] for row, noun in enumerate([*prompts] * 2)]) >= 0.75
