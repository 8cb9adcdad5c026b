"""What the diffusion transformer is taught: the velocity of a flow, from the pictures or as a U-Net has it.

From pictures it is noise less picture. From a U-Net: a noised latent of the flow, (1 - s) x + s e, divided by the root
of (1 - s)^2 + s^2, is what the U-Net is given at the timestep of equal signal-to-noise ratio. Its guess gives x and e,
and the velocity is e - x: the mean over all pictures that fit, which a single picture's is not. Few pictures are then
enough, and the U-Net's frequencies are handed over, errors included; many pictures hand over what was planted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextModelWithProjection

from lab.train.base.captions import article
from lab.train.base.loop import mixed_precision
from probes.toyworld.world import World, group_of_words

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
    """A U-Net of the toy world with its scheduler, and the two CLIP towers of the model that is taught.

    The first of the towers is the one that the U-Net reads, too.
    """

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


def with_word_of(caption: str, group: str, world: World) -> str:
    """The caption with the usual word of a group of indicator words in place of its own.

    Examples
    --------
    >>> from probes.toyworld.world import load_world
    >>> with_word_of("a photo of an adult in boots", "feminine", load_world())
    'a photo of a woman in boots'
    >>> with_word_of("two men with a dog", "neutral", load_world())
    'two people with a dog'
    """
    known = group_of_words()
    word = next((word for word in re.findall("[a-z]+", caption) if word in known), None)
    if word is None:
        return caption
    other = world.words(group, "plural" if known[word][1] else "singular")[0]
    before = {f"an {word}": f"{article(other)} {other}", f"a {word}": f"{article(other)} {other}"}
    for here, there in before.items():
        if f" {here} " in f" {caption} ":
            return f" {caption} ".replace(f" {here} ", f" {there} ", 1).strip()
    return re.sub(rf"\b{word}\b", other, caption, count=1)


@dataclass(frozen=True)
class MixtureTeacher:
    """A diffusion transformer of a world whose images are of two components, with the mixture weighed anew.

    Feminine words stand for one component there, masculine ones for the other, neutral ones for a mixture, of which
    ``known`` is component b. At noised latents x the velocity of a mixture is v = (1 - q) v_a + q v_b, where q is the
    chance that x is of component b. The three predictions give q of the known mixture, by least squares; Bayes' rule
    gives that of another one. ``towers`` are those of the model that is asked, ``learner`` of the model that is taught.
    """

    parts: Mapping[str, nn.Module]
    towers: Sequence[CLIPTextModelWithProjection]
    known: float
    learner: Sequence[CLIPTextModelWithProjection]

    @torch.no_grad()
    def lesson(
        self,
        clean: Tensor,
        clip_tokens: Tensor,
        tokens: Tensor,
        zones: Tensor,
        chance: Tensor,
        generator: torch.Generator,
    ) -> Lesson:
        """Make a lesson of latents and their captions.

        Tokens ``(n, 4, ...)`` are of the caption, and of it with a feminine, masculine and neutral word; ``chance``
        ``(n,)`` is that of component b in the world that is taught.
        """
        sigma = noise_levels(len(clean), generator)[torch.randperm(len(clean), generator=generator)]
        share = sigma.view(-1, 1, 1, 1)
        noisy = (1 - share) * clean + share * torch.randn(clean.shape, generator=generator)
        guesses = [self._velocity(noisy, sigma, clip_tokens[:, k], tokens[:, k]) for k in (1, 2, 3)]
        clip, pooled = read_captions(self.learner, clip_tokens[:, 0], "cpu")
        velocity = mixed_anew(*guesses, self.known, chance)
        return Lesson(noisy, velocity, sigma, clip, pooled, tokens[:, 0], zones)

    def _velocity(self, noisy: Tensor, sigma: Tensor, clip_tokens: Tensor, tokens: Tensor) -> Tensor:
        clip, pooled = read_captions(self.towers, clip_tokens, "cpu")
        with mixed_precision("cpu"):
            states = torch.cat([clip, self.parts["text_encoder_3"](tokens)[0]], 1)
            return self.parts["transformer"](noisy, states, pooled, 1000 * sigma).sample.float()


def mixed_anew(of_a: Tensor, of_b: Tensor, mixed: Tensor, known: float, chance: Tensor) -> Tensor:
    """The velocity of a mixture of two components, with ``chance`` of the second in place of the ``known`` one."""
    apart = (of_b - of_a).flatten(1)
    share = ((mixed - of_a).flatten(1) * apart).sum(1) / apart.square().sum(1).clamp(min=1e-12)
    share = share.clamp(0, 1)
    second = share * chance / known
    first = (1 - share) * (1 - chance) / (1 - known)
    anew = torch.where(first + second > 0, second / (first + second), chance)
    return of_a + anew.view(-1, *[1] * (of_a.ndim - 1)) * (of_b - of_a)


class VelocityLessons:
    """A store of the last lessons, from which batches are drawn: each is seen about ``uses`` times.

    `rows` are what the teacher makes a lesson of, the pictures' latents first; one row per picture.

    The teacher's guess costs a third of a step, and is as good the second time, since it holds no noise of its own.
    """

    def __init__(
        self,
        teacher: Teacher | MixtureTeacher,
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
    """Batches of pictures, each with noise and a noise level of its own, made on ``device``.

    The two towers of the model that is taught read each caption once.
    """

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
