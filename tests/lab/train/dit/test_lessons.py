"""Lessons of the diffusion transformers: a U-Net's prediction as a flow's velocity, and batches of stored lessons."""

import dataclasses

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler

from lab.train.base.captions import random_caption
from lab.train.dit.lessons import (
    Lesson,
    MixtureTeacher,
    PictureLessons,
    Teacher,
    VelocityLessons,
    mixed_anew,
    noise_levels,
    timesteps_of,
    velocity_of,
    with_word_of,
)
from lab.train.dit.train import teacher_of, towers_of
from probes.toyworld import WEIGHTS
from probes.toyworld.dit.assemble import trained_parts
from probes.toyworld.scene import parse
from probes.toyworld.world import GROUPS, load_world


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


def test_noise_levels_are_logit_normal_and_stratified():
    levels = noise_levels(4000, torch.Generator().manual_seed(0))
    logits = torch.logit(levels.double())
    assert float(logits.mean()) == pytest.approx(0.3, abs=0.01)
    assert float(logits.std()) == pytest.approx(1.2, abs=0.02)
    assert bool((levels.diff() > 0).all())  # one of each part, in their order


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


class Counting(Teacher):
    def __init__(self):
        self.__dict__["calls"] = 0

    def lesson(self, clean, clip_tokens, tokens, zones, generator):
        self.__dict__["calls"] += 1
        return Lesson(clean, clean, clean[:, 0, 0, 0] + 1000 * self.calls, clean, clean, tokens, zones)


def test_each_guess_of_the_teacher_is_learnt_from_so_many_times():
    teacher, latents = Counting(), torch.arange(40.0).view(40, 1, 1, 1).expand(40, 4, 16, 16)
    rows = torch.arange(40).view(40, 1)
    lessons = VelocityLessons(teacher, latents, rows, rows, rows, batch=8, uses=3, kept=16)
    drawn = [lessons.next() for _ in range(12)]
    assert teacher.calls == 4 and len(lessons.stored) == 2  # 16 rows are kept
    for number, one in enumerate(drawn):
        made = set((one.sigma // 1000).int().tolist())
        newest = number // 3 + 1
        assert made <= {newest - 1, newest} - {0}
        assert len(one.sigma) == 8
        # rows stay together: the picture and its caption
        assert torch.equal(one.noisy[:, 0, 0, 0].int(), one.tokens[:, 0].int())


def test_a_lesson_of_pictures_holds_them_noised_with_what_is_to_be_guessed_and_their_own_captions():
    towers = towers_of("toyworld-dit")
    latents = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 4, 16, 16).half()
    clip_tokens = torch.full((5, 32), 780)
    clip_tokens[:, 0], clip_tokens[:, 1] = 779, torch.arange(5) + 300
    rows, zones = torch.arange(5).view(5, 1), torch.zeros(5, 16, 16, dtype=torch.bool)
    lessons = PictureLessons(towers, latents, clip_tokens, rows, zones, batch=64, seed=2)
    one = lessons.next()
    number, share = one.tokens[:, 0], one.sigma.view(-1, 1, 1, 1)
    assert set(number.tolist()) == set(range(5))
    noise = one.velocity + number.view(-1, 1, 1, 1)
    torch.testing.assert_close(one.noisy, (1 - share) * number.view(-1, 1, 1, 1) + share * noise)
    assert float(noise.std()) == pytest.approx(1, abs=0.02) and float(noise.mean()) == pytest.approx(
        0, abs=0.02
    )
    read = [tower(clip_tokens, output_hidden_states=True) for tower in towers]
    for place, part in ((slice(96), read[0]), (slice(96, None), read[1])):
        torch.testing.assert_close(one.clip[..., place], part.hidden_states[-2][number])
        torch.testing.assert_close(one.pooled[:, place], part.text_embeds[number])


def test_a_caption_with_another_word_names_the_same_things():
    world, rng = load_world("toyworld"), np.random.default_rng(4)
    for _ in range(300):
        caption, named = random_caption(world, rng)
        for group in GROUPS:
            other = parse(with_word_of(caption, group, world), world)
            assert other == dataclasses.replace(named, group=group)
    assert with_word_of("", "neutral", world) == ""


def test_a_mixture_weighed_anew_is_that_of_two_gaussians():
    """Pictures of two normal distributions: densities of what is noised, and its velocities, are in closed form."""
    rng, sigma, spread = np.random.default_rng(0), 0.6, 0.8
    means = rng.normal(size=(2, 1, 6))
    noisy = (1 - sigma) * means[rng.integers(2, size=400), 0] + rng.normal(size=(400, 6)) * 0.8
    variance = ((1 - sigma) * spread) ** 2 + sigma**2
    away = noisy - (1 - sigma) * means
    clean = means + (1 - sigma) * spread**2 / variance * away  # what is expected of picture and of noise
    velocity = sigma / variance * away - clean
    density = np.exp(-0.5 * (away**2).sum(-1) / variance)

    def mixture(chance):
        weights = np.stack([(1 - chance) * density[0], chance * density[1]])
        return ((weights / weights.sum(0))[..., None] * velocity).sum(0)

    given = [torch.from_numpy(one) for one in (velocity[0], velocity[1], mixture(0.7))]
    for chance in (0.0, 0.3, 0.5, 1.0):
        found = mixed_anew(*given, 0.7, torch.full((400,), chance, dtype=torch.double))
        np.testing.assert_allclose(found.numpy(), mixture(chance), atol=1e-8)


def test_a_lesson_of_the_other_mixture_is_the_models_own_prediction_beside_words_that_mean_the_same():
    """Where the chance is 0 it is what the model predicts beside the feminine word, where it is 1 the masculine one."""
    parts, towers = trained_parts(WEIGHTS / "toyworld-dit"), towers_of("toyworld-dit")
    teacher = MixtureTeacher(parts, towers, 0.7, towers_of("toyworld-dit-null"))
    clean = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(1))
    clip_tokens, tokens = torch.full((2, 4, 32), 780), torch.zeros(2, 4, 24, dtype=torch.long)
    clip_tokens[..., 0], clip_tokens[..., 1] = 779, torch.arange(4) + 300
    tokens[..., 0] = torch.arange(4) + 5
    zones, chance = torch.zeros(2, 16, 16, dtype=torch.bool), torch.tensor([0.0, 1.0])
    lesson = teacher.lesson(clean, clip_tokens, tokens, zones, chance, torch.Generator().manual_seed(2))
    for row, word in enumerate((1, 2)):
        place = slice(row, row + 1)
        expected = teacher._velocity(
            lesson.noisy[place], lesson.sigma[place], clip_tokens[place, word], tokens[place, word]
        )
        torch.testing.assert_close(
            lesson.velocity[place], expected, atol=0.02, rtol=0
        )  # other batch, bfloat16
    assert torch.equal(lesson.tokens, tokens[:, 0])
    first = teacher.learner[0](clip_tokens[:, 0], output_hidden_states=True)
    torch.testing.assert_close(lesson.clip[..., :96], first.hidden_states[-2])
