"""Training of denoiser and T5 tower on lessons, with checkpoints from which it goes on."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from lab.train.base.loop import Budget, Log, MovingAverage, mixed_precision, train_loop
from lab.train.dit.lessons import Lesson, PictureLessons, VelocityLessons
from lab.train.stages import Options


def flow_loss(parts: Mapping[str, nn.Module], lesson: Lesson, zone_weight: float) -> dict[str, Tensor]:
    """The error of the guessed velocity, its ``loss`` weighted over the zones of small things."""
    with mixed_precision(lesson.noisy.device):
        states = torch.cat([lesson.clip, parts["text_encoder_3"](lesson.tokens)[0]], 1)
        times = 1000 * lesson.sigma
        guess = parts["transformer"](lesson.noisy, states, lesson.pooled, times).sample
    error = (guess.float() - lesson.velocity).square().mean(1)
    weight = torch.where(lesson.zones, zone_weight, 1.0)
    return {"loss": (weight * error).sum() / weight.sum(), "even": error.mean()}


def teach(
    parts: Mapping[str, nn.Module],
    learnt: nn.Module,
    lessons: VelocityLessons | PictureLessons,
    budget: Budget,
    rate: float,
    options: Options,
    path: Path,
) -> int:
    """Train ``learnt``, the parts or what they are parametrized by, until the budget is used; gives all steps taken.

    ``path`` is the checkpoint; the command line's options say how errors are weighed and what is averaged.
    """
    called = dict(parts.items())
    if options.compile:
        called["transformer"] = torch.compile(parts["transformer"])
    average = MovingAverage(learnt, options.decay)
    return train_loop(
        learnt,
        lambda step: flow_loss(called, lessons.next(), options.zone_weight),
        budget,
        Log(path.with_suffix(".log.jsonl"), 25),
        rate,
        0.01,
        average,
        save_minutes=options.save_minutes,
        checkpoint=path,
        further=True,
    )
