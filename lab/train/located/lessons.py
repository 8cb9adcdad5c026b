"""Training data of located benchmark models: noised drawings, and `toyworld`'s predictions of them.

A benchmark model learns to predict what `toyworld` predicts, not the drawing that the noise was added to: the former
is the mean of the latter (Hinton et al. 2015, "Distilling the knowledge in a neural network", for diffusion models
Salimans and Ho 2022), so a step teaches as much as many steps on drawings do. Every benchmark model is taught from
the same lessons.
"""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from diffusers import DDIMScheduler
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.train.base.data import make_drawings
from lab.train.base.unet import SCHEDULER
from lab.train.base.vae import encode_latents

WORLD = "toyworld"


@dataclass(frozen=True)
class Lessons:
    """Noised latents of captions, and the velocity that a model predicts of them, ``(n, 4, 16, 16)`` float16.

    ``zones`` ``(n, 16, 16)`` are cells that count more (:func:`lab.train.base.data.small_zones`), ``directions``
    ``(n, k, 4, 16, 16)`` unit vectors at right angles; errors along them can count once more.
    """

    noisy: Tensor
    taught: Tensor
    times: Tensor
    tokens: Tensor
    zones: Tensor
    directions: Tensor | None = None

    def save(self, path: Path) -> None:
        """Write them; :meth:`load` reads them again."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        save_file({name: value.contiguous() for name, value in held.items() if value is not None}, path)

    @classmethod
    def load(cls, path: Path) -> "Lessons":
        """Read what :meth:`save` wrote."""
        return cls(**load_file(path))

    def __len__(self) -> int:
        return len(self.times)


def spread_times(count: int, power: float, generator: torch.Generator) -> Tensor:
    """Timesteps spread evenly over ``count`` lessons, in an order at random; see `lab.train.base.unet.train_unet`."""
    order = torch.randperm(count, generator=generator)
    strata = (order + torch.rand(count, generator=generator)) / count
    return (1000 * strata**power).long().clamp(0, 999)


@torch.no_grad()
def make_lessons(
    pipe, count: int, *, noises: int = 2, time_power: float = 0.45, seed: int = 0, batch: int = 64, say=print
) -> Lessons:
    """Make lessons from ``count`` drawings, each noised ``noises`` times, by `toyworld`'s pipeline."""
    drawings = make_drawings(WORLD, count, seed + 21, with_zones=True)
    say(f"{count} drawings")
    clean = encode_latents(pipe.vae, drawings, np.arange(count)).float().repeat(noises, 1, 1, 1)
    generator = torch.Generator().manual_seed(seed)
    tokens = pipe.tokenizer(
        drawings.captions, padding="max_length", max_length=32, return_tensors="pt"
    ).input_ids.repeat(noises, 1)
    total = len(clean)
    times = spread_times(total, time_power, generator)
    scheduler = DDIMScheduler(**SCHEDULER)
    noisy = scheduler.add_noise(clean, torch.randn(clean.shape, generator=generator), times).half()
    taught = []
    for start in range(0, total, batch):
        rows = slice(start, start + batch)
        states = pipe.text_encoder(tokens[rows]).last_hidden_state
        taught.append(pipe.unet(noisy[rows].float(), times[rows], states).sample.half())
        if start // batch % 20 == 0:
            say(f"{start + batch} of {total} lessons")
    zones = torch.from_numpy(drawings.zones).repeat(noises, 1, 1)
    return Lessons(noisy, torch.cat(taught), times, tokens, zones)
