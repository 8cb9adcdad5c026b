"""The bundled benchmark models: layout, size, and that each does what it was taught, on a small sample."""

import numpy as np
import pytest
import torch
from safetensors import safe_open

from lab.train.base.measure import WEIGHTS, benchmark_pipeline, sample
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS
from probes.toyworld.checker import read_images

STEPS = 16


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
