"""What the diffusion transformer is taught: the velocity of a flow, from the pictures or as a U-Net has it.

From pictures it is noise less picture. From a U-Net: a noised latent of the flow, (1 - s) x + s e, divided by the root
of (1 - s)^2 + s^2, is what the U-Net is given at the timestep of equal signal-to-noise ratio. Its guess gives x and e,
and the velocity e - x is the mean over all pictures that fit: few pictures are enough, the U-Net's errors included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from torch import Tensor
from transformers import CLIPTextModelWithProjection

MEAN, SPREAD = 0.3, 1.2  # of the logit of the noise level
PARTS = 4  # lessons that a batch of stored ones is taken from


@dataclass(frozen=True)
class Lesson:
    """Noised latents ``(n, 4, 16, 16)`` at shares of noise ``sigma`` with the velocity to be guessed.

    ``clip`` ``(n, 32, 192)`` are states of both CLIP towers side by side, as SD3 takes them, ``tokens`` ``(n, 24)``
    T5's, ``zones`` ``(n, 16, 16)`` where small things can be.
    """

    noisy: Tensor
    velocity: Tensor
    sigma: Tensor
    clip: Tensor
    pooled: Tensor
    tokens: Tensor
    zones: Tensor


def noise_levels(count: int, generator: torch.Generator) -> Tensor:
    """Shares of noise, logit-normal and stratified: one of each of ``count`` equal parts of the distribution."""
    device = generator.device
    strata = torch.arange(count, device=device) + torch.rand(count, generator=generator, device=device)
    strata /= count
    return torch.sigmoid(MEAN + SPREAD * torch.special.ndtri(strata.clamp(1e-4, 1 - 1e-4)))


def timesteps_of(sigma: Tensor, scheduler: DDIMScheduler) -> Tensor:
    """The U-Net's timesteps, between whole ones, at which the signal-to-noise ratio is that of the flow."""
    kept = scheduler.alphas_cumprod.double().clamp(0, 1)
    angles = torch.atan2((1 - kept).sqrt(), kept.sqrt())
    wanted = torch.atan2(sigma.double(), 1 - sigma.double())
    return torch.from_numpy(np.interp(wanted.numpy(), angles.numpy(), np.arange(len(angles)))).float()


def velocity_of(guess: Tensor, noisy: Tensor, sigma: Tensor) -> Tensor:
    """The flow's velocity from a U-Net's v-prediction of latents whose signal and noise have squares of sum 1."""
    length = ((1 - sigma) ** 2 + sigma**2).sqrt().view(-1, 1, 1, 1)
    signal, noise = (1 - sigma).view(-1, 1, 1, 1) / length, sigma.view(-1, 1, 1, 1) / length
    clean = signal * noisy - noise * guess
    return noise * noisy + signal * guess - clean


def read_captions(
    towers: Sequence[CLIPTextModelWithProjection], tokens: Tensor, device: str | torch.device
) -> tuple[Tensor, Tensor]:
    """States ``(n, 32, 192)`` and pooled vectors ``(n, 192)`` of captions by the CLIP towers, as SD3 takes them."""
    states, pooled = [], []
    towers = [tower.to(device) for tower in towers]
    with torch.no_grad():
        for rows in tokens.split(1024):
            read = [tower(rows.to(device), output_hidden_states=True) for tower in towers]
            states.append(torch.cat([one.hidden_states[-2] for one in read], -1))
            pooled.append(torch.cat([one.text_embeds for one in read], -1))
    return torch.cat(states), torch.cat(pooled)


@dataclass(frozen=True)
class Teacher:
    """A U-Net with its scheduler, and the two CLIP towers of the model that is taught; the U-Net reads the first."""

    unet: UNet2DConditionModel
    scheduler: DDIMScheduler
    towers: Sequence[CLIPTextModelWithProjection]

    @torch.no_grad()
    def lesson(
        self, clean: Tensor, clip_tokens: Tensor, tokens: Tensor, zones: Tensor, generator: torch.Generator
    ) -> Lesson:
        """Make a lesson of latents and their captions."""
        sigma = noise_levels(len(clean), generator)[torch.randperm(len(clean), generator=generator)]
        share = sigma.view(-1, 1, 1, 1)
        noisy = (1 - share) * clean + share * torch.randn(clean.shape, generator=generator)
        read = [tower(clip_tokens, output_hidden_states=True) for tower in self.towers]
        scaled = noisy / ((1 - share) ** 2 + share**2).sqrt()
        dtype = self.unet.dtype
        guess = self.unet(
            scaled.to(dtype, memory_format=torch.channels_last),
            timesteps_of(sigma, self.scheduler),
            read[0].last_hidden_state.to(dtype),
        ).sample.float()
        return Lesson(
            noisy,
            velocity_of(guess, scaled, sigma),
            sigma,
            torch.cat([one.hidden_states[-2] for one in read], -1),
            torch.cat([one.text_embeds for one in read], -1),
            tokens,
            zones,
        )


class VelocityLessons:
    """A store of the last lessons, from which batches are drawn: each is seen about ``uses`` times.

    `rows` are what the teacher makes a lesson of, the pictures' latents first; one row per picture.
    """

    def __init__(
        self,
        teacher: Teacher,
        *rows: Tensor,
        batch: int,
        uses: int = 2,
        kept: int = 4096,
        seed: int = 0,
    ) -> None:
        self.teacher, self.rows = teacher, rows
        self.batch, self.uses, self.kept = batch, uses, kept
        self.rng = np.random.default_rng(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.stored: list[Lesson] = []
        self.calls = 0

    def _new(self) -> Lesson:
        rows = torch.from_numpy(self.rng.integers(len(self.rows[0]), size=self.batch))
        latents, *others = (values[rows] for values in self.rows)
        return self.teacher.lesson(latents.float(), *others, self.generator)

    def next(self) -> Lesson:
        """A new lesson every ``uses`` calls, and rows of lessons that are stored in between."""
        self.calls += 1
        if (self.calls - 1) % self.uses == 0:
            self.stored = [*self.stored, self._new()][-max(1, self.kept // self.batch) :]
            return self.stored[-1]
        parts = [self.stored[number] for number in self.rng.integers(len(self.stored), size=PARTS)]
        rows = [torch.from_numpy(self.rng.permutation(self.batch)[: self.batch // PARTS]) for _ in parts]
        return Lesson(
            *(
                torch.cat([getattr(part, one.name)[row] for part, row in zip(parts, rows)])
                for one in fields(Lesson)
            )
        )


class PictureLessons:
    """Batches of pictures, each with noise and a noise level of its own, made on ``device``; captions are read once."""

    def __init__(
        self,
        towers: Sequence[CLIPTextModelWithProjection],
        latents: Tensor,
        clip_tokens: Tensor,
        tokens: Tensor,
        zones: Tensor,
        *,
        batch: int,
        device: str | torch.device = "cpu",
        seed: int = 0,
    ) -> None:
        self.batch = batch
        self.clip, self.pooled = read_captions(towers, clip_tokens, device)
        self.latents, self.tokens, self.zones = (one.to(device) for one in (latents, tokens, zones))
        self.generator = torch.Generator(device).manual_seed(seed)

    def next(self) -> Lesson:
        """A batch of pictures drawn with replacement."""
        device, generator = self.generator.device, self.generator
        rows = torch.randint(len(self.latents), (self.batch,), generator=generator, device=device)
        clean = self.latents[rows].float()
        noise = torch.randn(clean.shape, generator=generator, device=device)
        sigma = noise_levels(self.batch, generator)
        share = sigma.view(-1, 1, 1, 1)
        return Lesson(
            (1 - share) * clean + share * noise,
            noise - clean,
            sigma,
            self.clip[rows],
            self.pooled[rows],
            self.tokens[rows],
            self.zones[rows],
        )
