"""The decoder of `toyworld-skills`: low-rank changes of the one that all benchmark models share, taught on scenes.

The shared autoencoder was trained on figures and draws a kite alone dark green, a chair grey. Its encoder stays as it
is, so that latents mean to the U-Net what they meant; the decoder learns to paint what is in them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from safetensors.torch import save_file
from torch import Tensor

from lab.train.base.data import Drawings
from lab.train.base.loop import Budget, Log, MovingAverage, mixed_precision, train_loop
from lab.train.base.lowrank import learning
from lab.train.base.vae import encode_latents
from lab.train.skills.scenes import SkillScene, draw_scene
from probes.toyworld.palette import INDEX
from probes.toyworld.skills import objects
from probes.toyworld.skills.assemble import decoder_layers


@dataclass(frozen=True)
class DecoderCourse:
    """Every number of the decoder's training.

    Attributes
    ----------
    steps, batch, rate, rank, seed
    noise : float
        Largest standard deviation of what is added to scaled latents; that of each scene is even between 0 and it.
    object_weight : float
        How many times the error of an object's pixels counts.
    """

    steps: int = 1200
    batch: int = 16
    rate: float = 4e-3
    rank: int = 16
    seed: int = 0
    noise: float = 0.15
    object_weight: float = 4.0


def train_decoder(
    vae: AutoencoderKL,
    drawn: list[SkillScene],
    course: DecoderCourse,
    log: Log,
    checkpoint: Path | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Tensor]:
    """Teach the decoder of an autoencoder scenes; return what is stored of it, float16, by layer and matrix.

    Parameters
    ----------
    vae : AutoencoderKL
        Float32; it is what it was at the end.
    drawn : list of SkillScene
    course : DecoderCourse
    checkpoint : pathlib.Path, optional
        Where what would be stored is written every five minutes.
    """
    pictures = np.stack([draw_scene(one) for one in drawn])
    drawings = Drawings([one.caption for one in drawn], pictures)
    vae.to(memory_format=torch.channels_last).requires_grad_(False)
    clean = encode_latents(vae, drawings, np.arange(len(drawn)))
    say(f"{len(drawn)} scenes encoded")
    rng = np.random.default_rng(course.seed)
    generator = torch.Generator().manual_seed(course.seed)
    things = np.array([INDEX[name] for name in objects()])
    with learning(decoder_layers(vae), course.rank, course.seed) as layers:
        average = MovingAverage(layers, 0.99)

        def loss_of(step: int) -> dict[str, Tensor]:
            rows = rng.integers(len(drawn), size=course.batch)
            pixels = drawings.pixels(rows).to(memory_format=torch.channels_last)
            spread = course.noise * torch.rand(course.batch, 1, 1, 1, generator=generator)
            latents = clean[rows].float()
            latents = latents + spread * torch.randn(latents.shape, generator=generator)
            with mixed_precision("cpu"):
                error = vae.decode(latents / vae.config.scaling_factor).sample.float() - pixels
            here = torch.from_numpy(np.isin(pictures[rows], things))[:, None]
            weight = torch.where(here, course.object_weight, 1.0)
            weight = weight / weight.mean()
            absolute, squared = (weight * error.abs()).mean(), (weight * error.square()).mean()
            return {"loss": absolute + squared, "absolute": absolute}

        def stored() -> dict[str, Tensor]:
            return {
                name.replace("/", "."): value.half().contiguous().clone()
                for name, value in average.values.items()
            }

        def save() -> None:
            if checkpoint is not None:
                save_file(stored(), checkpoint)

        budget = Budget(course.steps, warmup=20)
        train_loop(layers, loss_of, budget, log, course.rate, 0.0, average, save=save, save_minutes=2.0)
        return stored()
