"""Guidance and x0 against what diffusers' own schedulers say of the very same call."""

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DDPMScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
    KDPM2DiscreteScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    UniPCMultistepScheduler,
)

from hooks import Probe
from hooks.architectures.latents import predict_x0
from tests.hooks.conftest import draw, recorded_steps
from tests.tiny import tiny_pipeline


def probed(pipe, **call):
    with Probe(pipe, keep=["x0_pred", "noise_pred.*", "latent"]) as probe:
        draw(pipe, **call)
    return probe.kept


@pytest.mark.parametrize(
    ("scheduler", "prediction_type"),
    [
        (DDIMScheduler, "epsilon"),
        (DDIMScheduler, "v_prediction"),
        (DDPMScheduler, "sample"),
        (EulerDiscreteScheduler, "sample"),
        (EulerAncestralDiscreteScheduler, "v_prediction"),
    ],
)
def test_x0_is_the_schedulers(scheduler, prediction_type, monkeypatch):
    pipe = tiny_pipeline("toy", scheduler=scheduler, prediction_type=prediction_type)
    steps = recorded_steps(pipe, monkeypatch)
    kept = probed(pipe, num_inference_steps=5)
    assert len(steps) == 5
    expected = torch.stack([x0 for _, x0 in steps])
    torch.testing.assert_close(kept["x0_pred"].values, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "scheduler",
    [
        PNDMScheduler,
        HeunDiscreteScheduler,
        LMSDiscreteScheduler,
        pytest.param(KDPM2DiscreteScheduler, marks=pytest.mark.slow),
        pytest.param(UniPCMultistepScheduler, marks=pytest.mark.slow),
    ],
)
def test_a_perfect_denoiser_is_read_as_perfect(scheduler, monkeypatch):
    """A UNet that answers with the exact noise of a known image: x0 must be that image at every call.

    The noise is worked out from the scheduler's own levels, so x_t = sqrt(a) x0 + sqrt(1 - a) noise holds by
    construction whatever path the scheduler takes.
    """
    pipe = tiny_pipeline("sd1")
    pipe.scheduler = scheduler.from_config(pipe.scheduler.config, skip_prk_steps=True)
    truth = torch.randn(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    levels = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    levels = torch.cumprod(1 - levels, 0)

    def perfect(sample, timestep, **kwargs):
        t = float(timestep)
        sigma = ((1 - levels) / levels) ** 0.5
        below = min(int(t), 998)  # sigma schedulers: log-linear between whole timesteps
        share = t - below
        s = torch.exp((1 - share) * sigma[below].log() + share * sigma[below + 1].log())
        a = 1 / (s**2 + 1)
        return ((sample - a.sqrt() * truth) / (1 - a).sqrt(),)

    monkeypatch.setattr(pipe.unet, "forward", perfect)
    kept = probed(pipe, num_inference_steps=8, guidance_scale=4.0)
    found = kept["x0_pred"].values
    assert len(found) >= 8
    torch.testing.assert_close(found.float(), truth.expand(len(found), 3, 4, 16, 16), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("rescale", [0.0, 0.7])
def test_guided_is_bit_for_bit_what_the_scheduler_is_given(toy, rescale, monkeypatch):
    seen = recorded_steps(toy, monkeypatch)
    kept = probed(toy, guidance_scale=5.5, guidance_rescale=rescale)
    assert torch.equal(kept["noise_pred.guided"].values, torch.stack([given for given, _ in seen]))
    by_hand = kept["noise_pred.unconditional"].values + 5.5 * (
        kept["noise_pred.conditional"].values - kept["noise_pred.unconditional"].values
    )
    assert torch.equal(by_hand, kept["noise_pred.guided"].values) == (rescale == 0.0)


def test_without_guidance_the_conditional_is_the_guided(toy):
    kept = probed(toy, guidance_scale=1.0)
    assert torch.equal(kept["noise_pred.conditional"].values, kept["noise_pred.guided"].values)
    assert len(kept["noise_pred.unconditional"].call) == 0


def test_unknown_prediction_type():
    with pytest.raises(ValueError, match="but got 'flow'"):
        predict_x0(torch.ones(1), torch.ones(1), torch.tensor(0.5), "flow")
