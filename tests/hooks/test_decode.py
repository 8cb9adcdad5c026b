"""Latents of a probe, decoded."""

import numpy as np
import pytest

from hooks import HookError, Probe
from tests.hooks import transformers
from tests.hooks.conftest import PROMPTS, draw


def pixels(images):
    return np.stack([np.asarray(one, float) for one in images])


@pytest.mark.parametrize("kind", ["toy", "sd1", "flux-schnell"])
def test_the_final_latent_decodes_to_the_image(pipelines, dit, toy, kind):
    keep = ["latent.final", "x0_pred", "latent"]
    pipe = toy if kind == "toy" else pipelines(kind) if kind == "sd1" else dit(kind)
    with Probe(pipe, keep=keep) as probe:
        images = transformers.draw(pipe, kind) if kind.startswith("flux") else draw(pipe, PROMPTS)
    last = pixels(probe.decode(-1, "latent.final"))
    expected = np.asarray(images, float)
    expected = expected * 255 if expected.max() <= 1 else expected
    np.testing.assert_allclose(last, expected, atol=1.01)
    first, noisy = pixels(probe.decode(0, "x0_pred")), pixels(probe.decode(0))
    assert first.shape == noisy.shape == last.shape
    assert np.abs(first - last).mean() > 0 and np.abs(noisy - first).mean() > 1


def test_what_cannot_be_decoded_is_named_in_a_line(toy):
    with Probe(toy, keep=["x0_pred", "unet.mid"]) as probe:
        draw(toy, num_inference_steps=2)
    with pytest.raises(HookError, match="expected 'latent' as a kept latent, found none: pass keep='latent'"):
        probe.decode(0)
    with pytest.raises(HookError, match=r"expected 'unet\.mid' as a kept latent"):
        probe.decode(0, "unet.mid")
    with pytest.raises(HookError, match="step: expected one of the 2 calls of x0_pred, but got 2"):
        probe.decode(2, "x0_pred")
