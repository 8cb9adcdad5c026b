"""Lessons of a calibration: a benchmark model's own predictions, moved from what it draws to what is planted."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from torch import Tensor

from lab.train.base.tokenizer import encode
from lab.train.located.lessons import Lessons
from lab.train.work.lessons import Sketches, encode_skins, mixed, noised, skin_mean
from probes.toyworld.checker import SKIN_NAMES
from probes.toyworld.world import Profession, World


def moved(
    velocities: Sequence[Tensor],
    noisy: Tensor,
    clean: Tensor,
    kept: Tensor,
    leans: tuple[Tensor, Tensor],
    skins: tuple[Tensor, Tensor],
) -> Tensor:
    """A benchmark model's predictions, moved by Bayes' rule from what it draws to what is planted.

    Parameters
    ----------
    velocities : sequence of Tensor
        ``(n, 4, 16, 16)`` each: of the caption, and of the same with words that stand for the components.
    noisy, clean, kept : Tensor
        As :func:`lab.train.work.lessons.skin_mean` takes them.
    leans : pair of Tensor
        ``(n,)`` each: probability of component *b*, drawn and planted; NaN where a word stands for one.
    skins : pair of Tensor
        ``(n, skins)`` each: probabilities, drawn and planted.

    Returns
    -------
    Tensor
        ``(n, 4, 16, 16)``.
    """
    own = velocities[0]
    before, after = (skin_mean(noisy, clean, chances, kept) for chances in skins)
    towards = -(after - before) / (1 - kept).sqrt().view(-1, 1, 1, 1)
    before, after = (mixed(*velocities, leans[0].nan_to_num(0.5), to.nan_to_num(0.5)) for to in leans)
    return own + towards + torch.where(leans[0].isnan().view(-1, 1, 1, 1), 0.0, after - before)


@torch.no_grad()
def make_lessons(
    model: StableDiffusionPipeline,
    base: StableDiffusionPipeline,
    world: World,
    scenes: Sketches,
    now: Mapping[str, Profession],
    *,
    time_power: float = 0.7,
    seed: int = 0,
    batch: int = 64,
    say: Callable[[str], None] = print,
) -> Lessons:
    """Noise each drawing and write down what is to be predicted; ``untaught`` is what the benchmark model predicts.

    Parameters
    ----------
    now : mapping of str to Profession
        What it draws, from `drawn`.
    time_power : float
        As in :func:`lab.train.base.unet.train_unet`; the times at which leans and skins are decided come
        often.
    """
    clean = encode_skins(base, scenes, say)
    noise = noised(clean, scenes, 1, time_power, seed)
    all_leans, all_skins = _now_and_planted(scenes, now, world)
    ask, ask_base = _asker(model), _asker(base)
    of_profession = torch.tensor([bool(name) for name in scenes.professions])
    tokens = encode(model.tokenizer, scenes.captions)
    plain = encode(base.tokenizer, scenes.plain)
    taught, untaught = [], []
    for start in range(0, len(tokens), batch):
        some = slice(start, start + batch)
        noisy, times, zones = noise.noisy[some].float(), noise.times[some], noise.zones[some]
        own = ask(tokens[some], noisy, times)
        velocities = [own, own.clone(), own.clone()]
        mixture = [row for row in range(len(own)) if scenes.working[start + row]]
        for place in (1, 2):
            texts = [scenes.working[start + row][place] for row in mixture]
            if texts:
                velocities[place][mixture] = ask(
                    encode(model.tokenizer, texts), noisy[mixture], times[mixture]
                )
        leans, skins = ((now_of[some], to[some]) for now_of, to in (all_leans, all_skins))
        asked = moved(velocities, noisy, clean[some].float(), noise.kept[some], leans, skins)
        others = ~of_profession[some]
        if others.any():
            held = ask_base(plain[some][others], noisy[others], times[others])
            asked[others] = torch.where(zones[others][:, None], own[others], held)
        taught.append(asked.half())
        untaught.append(own.half())
        if start // batch % 40 == 0:
            say(f"{start + len(own)} of {len(tokens)} lessons")
    lessons = noise.lessons(torch.cat(taught), tokens)
    return dataclasses.replace(lessons, untaught=torch.cat(untaught))


def _asker(pipeline: StableDiffusionPipeline) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def velocity(tokens: Tensor, noisy: Tensor, times: Tensor) -> Tensor:
        return pipeline.unet(noisy, times, pipeline.text_encoder(tokens).last_hidden_state).sample

    return velocity


def _now_and_planted(
    scenes: Sketches, now: Mapping[str, Profession], world: World
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Leans and skins of each drawing's profession, drawn and planted."""
    even = (1 / len(SKIN_NAMES),) * len(SKIN_NAMES)
    leans, skins = [], []
    for side in (now, world.professions):
        rows = zip(scenes.professions, scenes.working)
        leans.append(torch.tensor([side[name].lean if words else np.nan for name, words in rows]).float())
        skins.append(
            torch.tensor([side[name].skins if name else even for name in scenes.professions]).float()
        )
    return (leans[0], leans[1]), (skins[0], skins[1])


@torch.no_grad()
def followed(
    model: StableDiffusionPipeline, lessons: Lessons, rows: Mapping[str, Tensor], batch: int = 64
) -> float:
    """Return the share of the wanted change that a model's predictions have made, averaged over a profession's lessons.

    Parameters
    ----------
    rows : mapping of str to Tensor
        By profession, numbers of lessons.

    Returns
    -------
    float
        Least-squares slope over all professions and latent values; 1 is all.
    """
    asked, done, velocity = 0.0, 0.0, _asker(model)
    for some in rows.values():
        before = lessons.untaught[some].float()
        now = [
            velocity(lessons.tokens[part], lessons.noisy[part].float(), lessons.times[part])
            for part in some.split(batch)
        ]
        away, towards = torch.cat(now) - before, lessons.taught[some].float() - before
        asked += float(towards.mean(0).square().sum())
        done += float((towards.mean(0) * away.mean(0)).sum())
    return done / asked
