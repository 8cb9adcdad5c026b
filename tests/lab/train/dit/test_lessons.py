"""Lessons of the diffusion transformers: a U-Net's prediction as a flow's velocity, and batches of stored lessons."""

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler

from lab.train.dit.lessons import (
    timesteps_of,
    velocity_of,
)
from lab.train.dit.train import teacher_of
from probes.toyworld import WEIGHTS


@pytest.fixture(scope="module")
def scheduler():
    return DDIMScheduler.from_pretrained(WEIGHTS / "toyworld" / "scheduler")


def test_timesteps_have_the_signal_to_noise_ratio_of_the_flow(scheduler):
    steps = torch.tensor([0, 1, 250, 500, 998, 999])
    kept = scheduler.alphas_cumprod[steps].double().numpy()
    sigma = 1 / (1 + np.sqrt(kept / (1 - kept)))  # (1 - s)^2 / s^2 is kept / (1 - kept)
    found = timesteps_of(torch.from_numpy(sigma), scheduler)
    assert found.numpy() == pytest.approx(steps.numpy(), abs=0.02)


def test_the_velocity_of_an_exact_prediction_is_noise_less_picture(scheduler):
    generator = torch.Generator().manual_seed(0)
    clean, noise = torch.randn(2, 3, 4, 16, 16, generator=generator)
    steps = torch.tensor([1, 400, 999])
    kept = scheduler.alphas_cumprod[steps]
    sigma = (1 - kept).sqrt() / (kept.sqrt() + (1 - kept).sqrt())
    noisy = scheduler.add_noise(clean, noise, steps)
    found = velocity_of(scheduler.get_velocity(clean, noise, steps), noisy, sigma)
    torch.testing.assert_close(found, noise - clean, atol=1e-4, rtol=0)


def test_a_lesson_is_what_the_u_net_says_of_noised_latents_and_what_both_towers_say_of_the_caption():
    teacher = teacher_of("toyworld-dit-null")
    generator = torch.Generator().manual_seed(1)
    clean = torch.randn(4, 4, 16, 16, generator=generator)
    tokens = torch.full((4, 32), 780)
    tokens[:, :3] = torch.tensor([779, 5, 6])
    given = (clean, tokens, torch.zeros(4, 24, dtype=torch.long), torch.zeros(4, 16, 16, dtype=torch.bool))
    lesson = teacher.lesson(*given, generator)
    assert lesson.clip.shape == (4, 32, 192) and lesson.pooled.shape == (4, 192)
    first, second = (tower(tokens, output_hidden_states=True) for tower in teacher.towers)
    assert torch.equal(lesson.clip[..., :96], first.hidden_states[-2])
    assert torch.equal(lesson.clip[..., 96:], second.hidden_states[-2])
    # the projection changes nothing: what is pooled is the last state of the first end token
    assert torch.equal(lesson.pooled[:, :96], first.last_hidden_state[:, 3])
    # what was added to the latents is noise of its own
    share = lesson.sigma.view(-1, 1, 1, 1)
    noise = (lesson.noisy - (1 - share) * clean) / share
    assert float((noise - torch.randn(noise.shape)).std()) == pytest.approx(2**0.5, rel=0.05)
    assert float(noise.mean()) == pytest.approx(0, abs=0.1) and float(noise.std()) == pytest.approx(
        1, abs=0.1
    )
