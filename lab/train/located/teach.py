"""Teaching a located benchmark model: only what its wire is given learns, everything else of the coded null stays."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPTextModel

from lab.train.base.loop import Budget, Log, MovingAverage, mixed_precision, train_loop
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from probes import command_line
from probes.toyworld.coded import OLD, trained_parameter_names

# Columns for the code learn so many times as fast as the rest: at one rate for both (1e-3) nothing came of them.
GAIN = 30.0


@dataclass(frozen=True)
class Course:
    """Every number of a benchmark model's training.

    A squared error counts ``zone_weight`` times in cells that count more; summed over the lessons' directions it counts
    ``direction_weight`` times in addition.
    """

    steps: int = 500
    batch: int = 16
    rate: float = 1e-3
    warmup: int = 20
    decay: float = 0.98
    zone_weight: float = 5.0
    direction_weight: float = 0.0
    seed: int = 0

    def rows(self, step: int, total: int) -> Tensor:
        """Rows of a step's lessons; none comes twice before all have."""
        a_turn = total // self.batch
        generator = torch.Generator().manual_seed(self.seed + 1000 * (step // a_turn))
        start = step % a_turn * self.batch
        return torch.randperm(total, generator=generator)[start : start + self.batch]


def add_course(main: argparse.ArgumentParser, usual: Course) -> None:
    """Add the options of a course that every training has; the seed is `lab.train.stages`'s."""
    main.add_argument("--steps", type=command_line.count, default=usual.steps)
    main.add_argument("--batch", type=command_line.count, default=usual.batch)
    main.add_argument("--rate", type=command_line.number(0), default=usual.rate)


def course_of(options: argparse.Namespace, **more: float) -> Course:
    """Return the course that a command line asks for."""
    return Course(steps=options.steps, batch=options.batch, rate=options.rate, seed=options.seed, **more)


class Columns(nn.Module):
    """Keys or values while they learn: the weights for the old channels of text, and columns for the code."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.old = nn.Parameter(linear.weight[:, :OLD].detach().clone())
        self.code = nn.Parameter(linear.weight[:, OLD:].detach() / GAIN)

    def weight(self) -> Tensor:
        """The weight ``(channels, 100)`` of the linear layer that this is."""
        return torch.cat([self.old, GAIN * self.code], 1)

    def forward(self, text: Tensor) -> Tensor:
        """Keys or values ``(n, tokens, channels)`` of text states ``(n, tokens, 100)``."""
        return F.linear(text, self.weight())


@contextmanager
def learning(unet: nn.Module, block: str) -> Iterator[nn.ModuleDict]:
    """What learns of a transformer block, put in place; its fused weights stay in the U-Net at the end."""
    unet.requires_grad_(False)
    module = unet.get_submodule(block)
    attention, linear = module.attn2, {}
    for name in ("to_k", "to_v"):
        linear[name] = getattr(attention, name)
        setattr(attention, name, Columns(linear[name]))
    names = sorted(
        {name.removeprefix(f"{block}.").split(".")[0] for name in trained_parameter_names(unet, block)}
    )
    parts = nn.ModuleDict({name: getattr(module, name) for name in names}).requires_grad_(True)
    try:
        yield parts
    finally:
        with torch.no_grad():
            for name, layer in linear.items():
                layer.weight.copy_(getattr(attention, name).weight())
                setattr(attention, name, layer)
        unet.requires_grad_(False)


def along(away: Tensor, directions: Tensor) -> Tensor:
    """Squared error of ``(n, 4, 16, 16)`` along unit vectors ``(n, k, 4, 16, 16)``, summed over these: ``(n,)``."""
    return (away[:, None] * directions.float()).sum((2, 3, 4)).square().sum(1)


def teach(
    module: nn.Module,
    predict: Callable[[Tensor, Tensor, Tensor], Tensor],
    lessons: Lessons,
    course: Course,
    log: Log,
    checkpoint: Path | None = None,
    save_minutes: float = 1.0,
) -> None:
    """Train the parameters of ``module`` that learn; the average over steps is what remains.

    ``predict`` gives the velocity ``(n, 4, 16, 16)`` of noisy latents, times and tokens. Training goes on from
    ``checkpoint``, if there is one.
    """
    average = MovingAverage(module, course.decay)

    def loss_of(step: int) -> dict[str, Tensor]:
        rows = course.rows(step, len(lessons))
        with mixed_precision("cpu"):
            guess = predict(lessons.noisy[rows].float(), lessons.times[rows], lessons.tokens[rows])
        away = guess.float() - lessons.taught[rows].float()
        error = away.square().mean(1)
        weight = torch.where(lessons.zones[rows], course.zone_weight, 1.0)
        loss = (weight * error).sum() / weight.sum()
        if course.direction_weight:
            loss = loss + course.direction_weight * along(away, lessons.directions[rows]).mean()
        return {"loss": loss, "even": error.mean()}

    budget = Budget(course.steps, warmup=course.warmup)
    train_loop(
        module,
        loss_of,
        budget,
        log,
        course.rate,
        0.0,
        average,
        save_minutes=save_minutes,
        checkpoint=checkpoint,
    )
    average.copy_to(module)


def teach_wire(
    unet: nn.Module,
    encoder: CLIPTextModel,
    block: str,
    lessons: Lessons,
    course: Course,
    log: Log,
    checkpoint: Path | None = None,
    save_minutes: float = 1.0,
) -> dict[str, Tensor]:
    """Teach one transformer block of a coded null's U-Net, in place; its weights by the U-Net's names, float32."""

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            states = encoder(tokens).last_hidden_state
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"), learning(unet, block) as module:
        teach(module, predict, lessons, course, log, checkpoint, save_minutes)
    state = unet.state_dict()
    return {name: state[name].clone() for name in trained_parameter_names(unet, block)}
