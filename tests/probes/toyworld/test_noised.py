"""Forward-noised renderings: the noise by the scheduler's formula, the component by what the checker sees."""

import numpy as np
import pytest
import torch

from probes.models.loading import load, resolve
from probes.toyworld.checker import read_images
from probes.toyworld.noised import add_noise, encode_renderings
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

PROMPTS = ["a person with a dog", "a lady in the park"]


@pytest.fixture(scope="module")
def pipe():
    return load(resolve("toyworld"), steps=4, device="cpu").pipe


def test_both_components_of_each_prompt_and_the_verdict_tells_them(pipe):
    latents, component, prompt = encode_renderings(pipe, PROMPTS, 6, seed=1)
    assert latents.shape == (24, 4, 16, 16) and prompt.tolist() == [0] * 12 + [1] * 12
    decoded = pipe.vae.decode(torch.from_numpy(latents) / pipe.vae.config.scaling_factor).sample
    pixels = ((decoded.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    odds = verdict(read_images(pixels), [PROMPTS[one] for one in prompt], load_world())
    assert ((odds > 0) == component).mean() >= 0.9
    assert np.array_equal(encode_renderings(pipe, PROMPTS, 6, seed=1)[0], latents)


def test_noise_is_the_schedulers(pipe):
    clean = np.full((3, 4, 16, 16), 2.0, np.float32)
    levels = pipe.scheduler.alphas_cumprod.double().numpy()
    early, late = add_noise(pipe, clean, [999.0, 99.0], seed=3)
    noise = (late - np.sqrt(levels[99]) * 2) / np.sqrt(1 - levels[99])
    assert abs(noise.mean()) < 0.1 and abs(noise.std() - 1) < 0.1
    np.testing.assert_allclose(early, np.sqrt(levels[999]) * 2 + np.sqrt(1 - levels[999]) * noise, atol=1e-4)
