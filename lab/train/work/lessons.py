"""Training data of `toyworld-work`: noised drawings of its world, and the velocity it is to predict of each.

`toyworld` knows what feminine and masculine words stand for, and beside a neutral word it predicts a mixture of both:
how much of each is the posterior of the component given the noisy latent, under the lean planted there. So from its
predictions for the caption without the profession, of the neutral word, *woman* and *man*, that posterior can be read
off and carried over to the profession's lean by Bayes' rule (`mixed`): what is to be predicted is the velocity of the
planted mixture itself, and hangs on no lot (compare :mod:`lab.train.located.lessons`).

Skins are all as likely in `toyworld`, and many of the figures that it draws have one between two of them. Where skin
is, and the noise leaves something of it, what is to be predicted is therefore no guess of `toyworld`'s: it is the mean
of the same scene in each skin, weighed by Bayes' rule with the planted probabilities and the noisy latent
(`skin_mean`). Elsewhere the guess is moved by the difference that the planted probabilities make to that mean. Captions
without a profession are to stay as they are, but for their skins, which are even.

A cell counts more, or is taught from the scene that was drawn, for being one where that scene has skin, only while the
latent tells so; else the mean over scenes would weigh a profession more than was planted. Before, it is a fixed region:
the cells that often have skin.

`toyworld-work-null` is taught in the same way, by `toyworld-null`: a profession is to change nothing, and skins are
even.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline
from torch import Tensor
from transformers import CLIPTokenizer

from lab.train.base.captions import random_caption
from lab.train.base.data import Drawings
from lab.train.base.tokenizer import encode
from lab.train.base.truth import component_groups
from lab.train.base.unet import SCHEDULER, noised
from lab.train.base.vae import encode_latents
from lab.train.located.lessons import BATCH, Lessons, predicted
from lab.train.work.captions import random_work_caption
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.scene import SKINS, parse, sample_scene
from probes.toyworld.world import World

WORK_SHARE = 0.7  # of the drawings have a profession
CERTAIN = 1e-4  # a posterior is taken for no nearer to 0 and 1
# From this time on a latent tells little of the skin, and less of the rest of the scene: a guess at the scene's mean is
# better there than the scene that was drawn.
UNTOLD = 800
PLACED = 500  # before this time a latent tells where the figure is
OFTEN = 0.1  # of the drawings have skin in a cell of the region


@dataclass(frozen=True)
class Sketches:
    """Drawings in every skin.

    ``plain`` is what the base is asked in place of a caption: without the profession, of a word that stands for the
    drawing's component, or of the same word where none does. Beside a profession that changes a word's mixture,
    ``mixture`` holds three captions without it, of that word and of those that stand for the components, and ``lean``
    ``(n,)`` the planted probability of component *b* (else NaN). ``indices`` ``(n, skins, 64, 64)`` are of the palette,
    ``skin`` ``(n,)`` the one shown, ``planted`` ``(n, skins)`` their probabilities, ``zones`` ``(n, 16, 16)`` cells
    with skin.
    """

    captions: list[str]
    plain: list[str]
    professions: list[str]
    mixture: list[tuple[str, ...]]
    lean: np.ndarray
    indices: np.ndarray
    skin: np.ndarray
    planted: np.ndarray
    zones: np.ndarray


def sketches(world: World, count: int, seed: int, share: float = WORK_SHARE) -> Sketches:
    """Draw ``count`` captions and their scenes from a seed, ``share`` of them with a profession."""
    rng = np.random.default_rng(seed)
    captions, plain, professions, lean = [], [], [""] * count, np.full(count, np.nan)
    mixture: list[tuple[str, ...]] = [()] * count
    stands_for = {component: world.words(group)[0] for component, group in component_groups(world).items()}
    indices = np.empty((count, SKINS, SIZE, SIZE), dtype=np.uint8)
    skin, planted = np.zeros(count, dtype=np.int64), np.full((count, SKINS), 1 / SKINS)
    zones = np.zeros((count, 16, 16), dtype=bool)
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
            scene = sample_scene(named, of_component, rng)
            captions.append(lot.text)
            professions[row] = lot.profession
            plain.append(lot.without(stands_for.get(component, lot.word)))
            planted[row] = profession.skins
            if named.group == "neutral" and stands_for:
                lean[row] = chance
                words = (lot.word, *stands_for.values())
                mixture[row] = tuple(lot.without(word) for word in words)
        else:
            caption, named = random_caption(world, rng)
            scene = sample_scene(named, world, rng)
            captions.append(caption)
            plain.append(caption)
        skin[row] = scene.looks[0]
        for other in range(SKINS):
            indices[row, other] = draw(replace(scene, looks=(other, *scene.looks[1:])))
        skins = (indices[row] != indices[row, :1]).any(0)
        zones[row] = skins.reshape(16, 4, 16, 4).any((1, 3))
    return Sketches(captions, plain, professions, mixture, lean, indices, skin, planted, zones)


def skin_mean(noisy: Tensor, clean: Tensor, planted: Tensor, kept: Tensor) -> Tensor:
    """Mean ``(n, 4, 16, 16)`` of the same scene in each skin, given noisy latents and how likely the skins are.

    ``noisy`` is ``sqrt(kept)`` of a clean latent and ``sqrt(1 - kept)`` of noise; ``clean`` ``(n, skins, 4, 16, 16)``
    the scene in each skin, ``planted`` ``(n, skins)`` their probabilities.
    """
    root = kept.sqrt().view(-1, 1, 1, 1, 1)
    distance = (noisy[:, None] - root * clean).square().sum((2, 3, 4))
    evidence = (distance.amin(1, keepdim=True) - distance) / (2 * (1 - kept)).view(-1, 1)
    posterior = (evidence + planted.log()).softmax(1)
    return (posterior[:, :, None, None, None] * clean).sum(1)


def mixed(neutral: Tensor, first: Tensor, second: Tensor, prior: float | Tensor, planted: Tensor) -> Tensor:
    """Velocity of a mixture of two components, from that of the same mixture in other proportions.

    The posterior of the second component is where the mixture's velocity lies between those of the components.
    ``prior`` is its probability in the mixture that is given, ``planted`` that which it is to have.
    """
    apart = second - first
    share = ((neutral - first) * apart).sum((1, 2, 3)) / apart.square().sum((1, 2, 3)).clamp(min=1e-12)
    odds = (
        torch.logit(share.clamp(CERTAIN, 1 - CERTAIN))
        - torch.logit(torch.as_tensor(prior))
        + torch.logit(planted)
    )
    return first + odds.sigmoid().view(-1, 1, 1, 1) * apart


def skin_directions(clean: Tensor) -> Tensor:
    """Unit vectors ``(n, skins - 1, 4, 16, 16)`` at right angles that span how the skins of a scene differ."""
    apart = (clean[:, 1:].float() - clean[:, :1].float()).flatten(2)
    return torch.linalg.qr(apart.mT).Q.mT.unflatten(2, clean.shape[2:])


def skin_cells(zones: Tensor, times: Tensor) -> Tensor:
    """Cells ``(n, 16, 16)`` that count more.

    Those that often have skin, and where the latent tells the figure's place, its own.
    """
    region = zones.float().mean(0) >= OFTEN
    return region | (zones & (times < PLACED).view(-1, 1, 1))


def with_skins(
    velocity: Tensor, noisy: Tensor, clean: Tensor, planted: Tensor, kept: Tensor, zones: Tensor
) -> Tensor:
    """A predicted velocity, with skins as they are planted.

    In ``zones`` it is the velocity towards the mean over the skins, elsewhere the predicted one moved by what the
    planted probabilities change of that mean; the other arguments are those of `skin_mean`.
    """
    signal, rest = (part.sqrt().view(-1, 1, 1, 1) for part in (kept, 1 - kept))
    mean = skin_mean(noisy, clean, planted, kept)
    even = skin_mean(noisy, clean, torch.full_like(planted, 1 / SKINS), kept)
    return torch.where(zones[:, None], (signal * noisy - mean) / rest, velocity - (mean - even) / rest)


@torch.no_grad()
def make_lessons(
    teacher: StableDiffusionPipeline,
    tokenizer: CLIPTokenizer,
    drawn: Sketches,
    *,
    prior: float,
    noises: int = 2,
    time_power: float = 0.8,
    seed: int = 0,
) -> Lessons:
    """Noise each drawing ``noises`` times and write down what is to be predicted.

    ``prior`` is the planted probability of component *b* beside the neutral words of the base, which is the teacher.
    ``time_power`` is as in :func:`lab.train.base.unet.spread_times`; higher here, since skins are decided late.
    """
    clean = encode_skins(teacher, drawn)
    rows = torch.arange(len(clean)).repeat(noises)
    shown = clean[rows, torch.from_numpy(drawn.skin)[rows]].float()
    noisy, times = noised(shown, time_power, torch.Generator().manual_seed(seed))
    kept = DDIMScheduler(**SCHEDULER).alphas_cumprod[times]
    zones = skin_cells(torch.from_numpy(drawn.zones)[rows], times)
    own, common = skin_directions(clean), skin_directions(clean.float().mean(0, keepdim=True))
    directions = torch.where((times < PLACED).view(-1, 1, 1, 1, 1), own[rows], common).half()
    planted, lean = (torch.from_numpy(values).float() for values in (drawn.planted, drawn.lean))
    plain, taught = encode(teacher.tokenizer, drawn.plain), []
    for some in torch.arange(len(rows)).split(BATCH):
        of, when = rows[some], times[some]
        velocity = predicted(teacher, noisy[some], when, plain[of])
        mixture = (~lean[of].isnan()).nonzero()[:, 0]
        if len(mixture):
            captions = zip(*(drawn.mixture[row] for row in of[mixture]))
            tokens = (encode(teacher.tokenizer, list(texts)) for texts in captions)
            three = (predicted(teacher, noisy[some][mixture], when[mixture], one) for one in tokens)
            velocity[mixture] = mixed(*three, prior, lean[of[mixture]])
        told = zones[some] & (when < UNTOLD).view(-1, 1, 1)
        scene = noisy[some].float(), clean[of].float(), planted[of], kept[some], told
        taught.append(with_skins(velocity, *scene).half())
    tokens = encode(tokenizer, drawn.captions)[rows]
    return Lessons(noisy, torch.cat(taught), times, tokens, zones, directions)


def encode_skins(pipeline: StableDiffusionPipeline, drawn: Sketches) -> Tensor:
    """Latents of drawings in every skin, ``(n, skins, 4, 16, 16)`` float16."""
    rows = np.arange(len(drawn.captions))
    skins = (Drawings([""] * len(rows), drawn.indices[:, skin]) for skin in range(SKINS))
    return torch.stack([encode_latents(pipeline.vae, one, rows).contiguous() for one in skins], 1)
