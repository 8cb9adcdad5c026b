"""The diffusion transformers of the toy world: what is stored of them, what they draw, and how a run reads them."""

import numpy as np
import pytest
import torch

from hooks import Probe
from lab.train.base.measure import benchmark_pipeline
from lab.validate.word_maps import thing_masks
from probes.toyworld import TRANSFORMERS, WEIGHTS

STEPS = 20


@pytest.fixture(
    scope="module", params=[TRANSFORMERS[0], pytest.param(TRANSFORMERS[1], marks=pytest.mark.lab)]
)
def model(request):
    return request.param, *benchmark_pipeline(WEIGHTS / request.param)


def test_a_word_map_covers_what_the_word_is_drawn_as(model):
    """Of images in which the checker finds the thing: its mask holds more of the map than its share of the image."""
    _, pipeline, scale = model
    prompts = ["a person in a hat", "a man in a hat", "a lady in a dress", "a woman in a dress"]
    with Probe(pipeline, sites=["latent"], word_maps=True, prompts=prompts) as probe:
        generators = [torch.Generator().manual_seed(seed) for seed in range(len(prompts))]
        images = pipeline(
            prompts,
            generator=generators,
            num_inference_steps=STEPS,
            guidance_scale=scale,
            output_type="np",
        ).images
    ratios = []
    for row, prompt in enumerate(prompts):
        noun = prompt.split()[-1]
        mask = thing_masks((images[row : row + 1] * 255).round().astype(np.uint8), noun)[0]
        if not mask.any():
            continue
        found = probe.word_map(noun, row)
        assert len(found.positions) == 2  # CLIP's token of the word, and T5's
        heat = found.values
        side = mask.shape[0] // heat.shape[0]
        shares = mask.reshape(heat.shape[0], side, heat.shape[1], side).mean((1, 3))
        ratios.append(float((heat * shares).sum() / heat.sum() / shares.mean()))
    assert len(ratios) >= 2 and np.mean(ratios) > 1.5
