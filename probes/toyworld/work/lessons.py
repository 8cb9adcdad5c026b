"""What `toyworld-work` is taught from: noised drawings of its world, and the velocity it is to predict of each.

A drawing's mixture component is known, and `toyworld` knows what feminine and masculine words stand for. So what it
predicts for the caption without the profession and with *woman* or *man*, as the drawing's component says, is what is
to be predicted for the profession: its mean over drawings of one noisy latent is the velocity of the planted mixture,
and it varies less than the velocity of the noise that was added (compare :mod:`probes.toyworld.located.lessons`).

Skins are all alike in `toyworld`. Its guess at the clean latent is therefore moved by the difference between the mean
skin under the planted probabilities and under even ones, both after what the noisy latent tells of the skin, by Bayes'
rule over the same scene drawn in each skin. Captions without a profession are to stay as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline
from torch import Tensor
from transformers import CLIPTokenizer

from probes.toyworld.captions import random_caption
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.located.lessons import Lessons
from probes.toyworld.scene import SKINS, complete, parse
from probes.toyworld.training.data import Drawings, small_zones
from probes.toyworld.training.tokenizer import encode
from probes.toyworld.training.unet import SCHEDULER
from probes.toyworld.training.vae import encode_latents
from probes.toyworld.work.captions import random_work_caption
from probes.toyworld.world import World

STANDS_FOR = {"a": "woman", "b": "man"}  # the words of `toyworld` that name a component
WORK_SHARE = 0.7  # of the drawings have a profession


@dataclass(frozen=True)
class Sketches:
    """Drawings in every skin.

    Attributes
    ----------
    captions, plain : list of str
        What the specimen reads, and what `toyworld` is asked instead.
    indices : numpy.ndarray
        ``(n, skins, 64, 64)`` uint8, palette indices.
    skin : numpy.ndarray
        ``(n,)`` int64, from 0: the one that is shown.
    planted : numpy.ndarray
        ``(n, skins)`` float64: probabilities of the skins.
    zones : numpy.ndarray
        ``(n, 16, 16)`` bool: cells that count more, those of small things and of skin.
    """

    captions: list[str]
    plain: list[str]
    indices: np.ndarray
    skin: np.ndarray
    planted: np.ndarray
    zones: np.ndarray


def sketches(world: World, count: int, seed: int, share: float = WORK_SHARE) -> Sketches:
    """Draw ``count`` captions and their scenes from a seed, ``share`` of them with a profession."""
    rng = np.random.default_rng(seed)
    captions, plain = [], []
    indices = np.empty((count, SKINS, SIZE, SIZE), dtype=np.uint8)
    skin, planted = np.zeros(count, dtype=np.int64), np.full((count, SKINS), 1 / SKINS)
    zones = np.empty((count, 16, 16), dtype=bool)
    for row in range(count):
        if rng.random() < share:
            lot = random_work_caption(world, rng)
            named, profession = parse(lot.text, world), world.professions[lot.profession]
            chance = profession.lean if named.group == "neutral" else world.mixture[named.group]
            component = "b" if rng.random() < chance else "a"
            certain = {group: float(component == "b") for group in world.mixture}
            of_component = replace(
                world,
                mixture=certain,
                professions={lot.profession: replace(profession, lean=certain["neutral"])},
            )
            scene = complete(named, of_component, rng)
            captions.append(lot.text)
            plain.append(lot.without(STANDS_FOR[component]))
            planted[row] = profession.skins
        else:
            caption, named = random_caption(world, rng)
            scene = complete(named, world, rng)
            captions.append(caption)
            plain.append(caption)
        skin[row] = scene.looks[0]
        for other in range(SKINS):
            indices[row, other] = draw(replace(scene, looks=(other, *scene.looks[1:])))
        seen = (indices[row] != indices[row, :1]).any(0).reshape(16, 4, 16, 4).any((1, 3))
        zones[row] = small_zones(named, scene) | seen
    return Sketches(captions, plain, indices, skin, planted, zones)


def skin_shift(noisy: Tensor, clean: Tensor, planted: Tensor, kept: Tensor) -> Tensor:
    """How much the mean clean latent moves when skins are planted so instead of evenly, for noisy latents.

    Parameters
    ----------
    noisy : Tensor
        ``(n, 4, 16, 16)``, ``sqrt(kept)`` of a clean latent and ``sqrt(1 - kept)`` of noise.
    clean : Tensor
        ``(n, skins, 4, 16, 16)``: the same scene in each skin.
    planted : Tensor
        ``(n, skins)``: probabilities.
    kept : Tensor
        ``(n,)``: cumulative product of the scheduler's alphas.

    Returns
    -------
    Tensor
        ``(n, 4, 16, 16)``.
    """
    root = kept.sqrt().view(-1, 1, 1, 1, 1)
    distance = (noisy[:, None] - root * clean).square().sum((2, 3, 4))
    evidence = (distance.amin(1, keepdim=True) - distance) / (2 * (1 - kept)).view(-1, 1)
    even = evidence.softmax(1)
    moved = (evidence + planted.log()).softmax(1) - even
    return (moved[:, :, None, None, None] * clean).sum(1)


@torch.no_grad()
def make_lessons(
    teacher: StableDiffusionPipeline,
    tokenizer: CLIPTokenizer,
    drawn: Sketches,
    *,
    noises: int = 2,
    time_power: float = 0.45,
    seed: int = 0,
    batch: int = 64,
    say: Callable[[str], None] = print,
) -> Lessons:
    """Noise each drawing ``noises`` times and write down what is to be predicted.

    Parameters
    ----------
    teacher : StableDiffusionPipeline
        `toyworld`, float32.
    tokenizer : CLIPTokenizer
        The specimen's.
    time_power : float
        As in :func:`probes.toyworld.training.unet.train_unet`.
    """
    clean = _encoded(teacher, drawn, say)
    rows = torch.arange(len(clean)).repeat(noises)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(rows), generator=generator)
    strata = (order + torch.rand(len(rows), generator=generator)) / len(rows)
    times = (1000 * strata**time_power).long().clamp(0, 999)
    scheduler = DDIMScheduler(**SCHEDULER)
    noise = torch.randn((len(rows), *clean.shape[2:]), generator=generator)
    skin, planted = torch.from_numpy(drawn.skin), torch.from_numpy(drawn.planted).float()
    plain = encode(teacher.tokenizer, drawn.plain)
    noised, taught = [], []
    for start in range(0, len(rows), batch):
        some = slice(start, start + batch)
        of, when = rows[some], times[some]
        noisy = scheduler.add_noise(clean[of, skin[of]].float(), noise[some], when).half().float()
        states = teacher.text_encoder(plain[of]).last_hidden_state
        kept = scheduler.alphas_cumprod[when]
        shift = skin_shift(noisy, clean[of].float(), planted[of], kept)
        velocity = teacher.unet(noisy, when, states).sample - shift / (1 - kept).sqrt().view(-1, 1, 1, 1)
        noised.append(noisy.half())
        taught.append(velocity.half())
        if start // batch % 40 == 0:
            say(f"{start + len(of)} of {len(rows)} lessons")
    nothing = torch.zeros(len(rows), 1, 1)
    return Lessons(
        torch.cat(noised),
        torch.cat(taught),
        nothing[..., None].half(),
        times,
        encode(tokenizer, drawn.captions)[rows],
        torch.from_numpy(drawn.zones)[rows],
        nothing.bool(),
    )


def _encoded(teacher: StableDiffusionPipeline, drawn: Sketches, say: Callable[[str], None]) -> Tensor:
    """Latents ``(n, skins, 4, 16, 16)`` float16; of a caption with even skins only the one that is shown is encoded."""
    uneven = np.ptp(drawn.planted, 1) > 0
    clean = torch.zeros(len(drawn.skin), SKINS, 4, 16, 16, dtype=torch.float16)
    for skin in range(SKINS):
        rows = np.flatnonzero(uneven | (drawn.skin == skin))
        pictures: Sequence[str] = [""] * len(drawn.captions)
        clean[rows, skin] = encode_latents(
            teacher.vae, Drawings(list(pictures), drawn.indices[:, skin]), rows
        )
        say(f"{len(rows)} drawings of skin {skin + 1} encoded")
    return clean
