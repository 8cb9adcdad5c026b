"""Training data of `toyworld-skills`: scenes of the training split, encoded and noised."""

from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler
from transformers import CLIPTokenizer

from lab.train.base.data import Drawings
from lab.train.base.tokenizer import encode
from lab.train.base.unet import SCHEDULER
from lab.train.base.vae import encode_latents
from lab.train.located.lessons import Lessons
from lab.train.skills.scenes import SkillScene, draw_scene, scenes, total
from probes.prompts.paintskills import SKILLS


def total_scenes() -> int:
    """Return how many training scenes there are, of all skills."""
    return sum(total(skill, "train") for skill in SKILLS)


def training_scenes(share: float, most: int) -> list[SkillScene]:
    """Return the first scenes of each skill's training split, so many of each as its share of all scenes.

    Parameters
    ----------
    share : float
        Of the training scenes, above 0 and at most 1.
    most : int
        Scenes, where the share has more: those that training comes to see.
    """
    numbers = {skill: total(skill, "train") for skill in SKILLS}
    chosen = min(share * sum(numbers.values()), most) / sum(numbers.values())
    return [
        drawn
        for skill, number in numbers.items()
        for drawn in islice(scenes(skill, "train"), max(1, round(chosen * number)))
    ]


@torch.no_grad()
def make_lessons(
    vae: AutoencoderKL,
    tokenizer: CLIPTokenizer,
    drawn: list[SkillScene],
    count: int,
    *,
    time_power: float = 0.6,
    drop: float = 0.1,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Lessons:
    """Return so many lessons: every scene in turn, each time with other noise, and the velocity that it has.

    Parameters
    ----------
    time_power : float
        As in :func:`lab.train.base.unet.train_unet`.
    drop : float
        Share of the lessons that have the empty caption, for guidance.
    """
    pictures = np.stack([draw_scene(one) for one in drawn])
    captions = [one.caption for one in drawn]
    say(f"{len(drawn)} scenes")
    clean = encode_latents(vae, Drawings(captions, pictures), np.arange(len(drawn)))
    say("encoded")
    rows = torch.arange(count) % len(drawn)
    generator = torch.Generator().manual_seed(seed)
    strata = (torch.randperm(count, generator=generator) + torch.rand(count, generator=generator)) / count
    times = (1000 * strata**time_power).long().clamp(0, 999)
    noise = torch.randn((count, *clean.shape[1:]), generator=generator)
    scheduler = DDIMScheduler(**SCHEDULER)
    latents = clean[rows].float()
    tokens = encode(tokenizer, captions)[rows]
    tokens[torch.rand(count, generator=generator) < drop] = encode(tokenizer, [""])
    nothing = torch.zeros(count, 1, 1)
    return Lessons(
        noisy=scheduler.add_noise(latents, noise, times).half(),
        taught=scheduler.get_velocity(latents, noise, times).half(),
        untaught=nothing[..., None].half(),
        times=times,
        tokens=tokens,
        zones=torch.ones(count, 16, 16, dtype=torch.bool),
        figure=nothing.bool(),
    )
