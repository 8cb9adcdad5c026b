"""Training data of located benchmark models: noised drawings, and `toyworld`'s predictions of them.

A benchmark model learns to predict what `toyworld` predicts, not the drawing that the noise was added to: the former
is the mean of the latter (Hinton et al. 2015, "Distilling the knowledge in a neural network", for diffusion models
Salimans and Ho 2022), so a step teaches as much as many steps on drawings do. Every benchmark model is taught from
the same lessons.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from diffusers import DDIMScheduler
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.train.base.captions import random_caption
from lab.train.base.data import Drawings, small_zones
from lab.train.base.unet import SCHEDULER
from lab.train.base.vae import encode_latents
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.scene import Scene, complete
from probes.toyworld.world import load_world

WORLD = "toyworld"


@dataclass(frozen=True)
class Lessons:
    """Noised latents of captions, and what two models predict of them.

    Attributes
    ----------
    noisy, taught, untaught : Tensor
        ``(n, 4, 16, 16)`` float16: the latent at its timestep, and the velocity that `toyworld` and `toyworld-null`
        predict for its caption.
    times : Tensor
        ``(n,)`` int64.
    tokens : Tensor
        ``(n, 32)`` int64.
    zones, figure : Tensor
        ``(n, 16, 16)`` bool: cells that count more (:func:`lab.train.base.data.small_zones`), and cells where
        what a figure wears can be.
    directions : Tensor, optional
        ``(n, k, 4, 16, 16)`` float16: unit vectors at right angles; errors along them can count once more.
    """

    noisy: Tensor
    taught: Tensor
    untaught: Tensor
    times: Tensor
    tokens: Tensor
    zones: Tensor
    figure: Tensor
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


def figure_cells(scene: Scene) -> np.ndarray:
    """Cells ``(16, 16)`` bool of the latents where the figure, or anything it can wear, is drawn."""
    plain = replace(scene, wears=dict.fromkeys(scene.wears, "none"), objects={})
    cells = np.zeros((SIZE, SIZE), dtype=bool)
    background = draw(replace(plain, place="studio", looks=scene.looks))
    for upper, lower in (("dress", "none"), ("suit", "none"), ("jacket", "slacks"), ("shirt", "skirt")):
        worn = {
            "upper": upper,
            "lower": lower,
            "feet": "boots",
            "head": "hat",
            "neck": "tie",
            "hands": "gloves",
        }
        cells |= draw(replace(plain, place="studio", wears=plain.wears | worn)) != background
    return cells.reshape(16, 4, 16, 4).any((1, 3))


def drawn(count: int, seed: int) -> tuple[Drawings, np.ndarray]:
    """Drawings of the planted world with their zones, and the cells of their figures ``(count, 16, 16)`` bool."""
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    captions, indices = [], np.empty((count, SIZE, SIZE), dtype=np.uint8)
    zones, figure = (np.empty((count, 16, 16), dtype=bool) for _ in range(2))
    for row in range(count):
        caption, named = random_caption(world, rng)
        scene = complete(named, world, rng)
        captions.append(caption)
        indices[row], zones[row], figure[row] = draw(scene), small_zones(named, scene), figure_cells(scene)
    return Drawings(captions, indices, zones), figure


@torch.no_grad()
def make_lessons(
    pipes, count: int, *, noises: int = 2, time_power: float = 0.45, seed: int = 0, batch: int = 64, say=print
) -> Lessons:
    """Make lessons from ``count`` drawings, each noised ``noises`` times.

    Parameters
    ----------
    pipes : pair of StableDiffusionPipeline
        `toyworld` and `toyworld-null`.
    time_power : float
        As in :func:`lab.train.base.unet.train_unet`.
    """
    drawings, figure = drawn(count, seed + 21)
    say(f"{count} drawings")
    vae = pipes[0].vae
    clean = encode_latents(vae, drawings, np.arange(count)).float().repeat(noises, 1, 1, 1)
    generator = torch.Generator().manual_seed(seed)
    tokens = (
        pipes[0]
        .tokenizer(drawings.captions, padding="max_length", max_length=32, return_tensors="pt")
        .input_ids.repeat(noises, 1)
    )
    total = len(clean)
    order = torch.randperm(total, generator=generator)
    strata = (order + torch.rand(total, generator=generator)) / total
    times = (1000 * strata**time_power).long().clamp(0, 999)
    scheduler = DDIMScheduler(**SCHEDULER)
    noisy = scheduler.add_noise(clean, torch.randn(clean.shape, generator=generator), times).half()
    said: list[list[Tensor]] = [[], []]
    for start in range(0, total, batch):
        rows = slice(start, start + batch)
        for pipe, guesses in zip(pipes, said, strict=True):
            states = pipe.text_encoder(tokens[rows]).last_hidden_state
            guesses.append(pipe.unet(noisy[rows].float(), times[rows], states).sample.half())
        if start // batch % 20 == 0:
            say(f"{start + batch} of {total} lessons")
    masks = [torch.from_numpy(mask).repeat(noises, 1, 1) for mask in (drawings.zones, figure)]
    return Lessons(noisy, torch.cat(said[0]), torch.cat(said[1]), times, tokens, *masks)
