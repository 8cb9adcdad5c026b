"""Teaching a located benchmark model: only what its wire is given learns, everything else of the coded null stays."""

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPTextModel

from lab.train.base.loop import Log, MovingAverage, mixed_precision
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from probes import command_line
from probes.toyworld.located.wiring import OLD, taught_names

# Columns for the code learn so many times as fast as the rest: at one rate for both (1e-3) nothing came of them.
GAIN = 30.0


@dataclass(frozen=True)
class Course:
    """Every number of a benchmark model's training.

    A squared error counts ``zone_weight`` times in cells that count more; summed over the lessons' directions it counts
    ``direction_weight`` times in addition. Training ends after ``until`` of its steps, where that is given.
    """

    steps: int = 500
    batch: int = 16
    rate: float = 1e-3
    warmup: int = 20
    decay: float = 0.98
    zone_weight: float = 5.0
    direction_weight: float = 0.0
    seed: int = 0
    until: int | None = None

    def factor(self, step: int) -> float:
        """Share of the rate at a step: a linear beginning, then a cosine down to 2 %."""
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return min(1.0, (step + 1) / self.warmup) * (0.02 + 0.98 * cosine)

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
    names = sorted({name.removeprefix(f"{block}.").split(".")[0] for name in taught_names(unet, block)})
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
    *,
    checkpoint: Path | None = None,
    save_every: int = 100,
) -> None:
    """Train the parameters of ``module`` that learn; the average over steps is what remains.

    Parameters
    ----------
    predict : callable
        From noisy latents, times and tokens to the velocity ``(n, 4, 16, 16)``.
    checkpoint : pathlib.Path, optional
        Where the state is kept every ``save_every`` steps; training goes on from there.
    """
    average = MovingAverage(module, course.decay)
    parameters = [value for value in module.parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=course.rate, weight_decay=0.0, betas=(0.9, 0.99))
    first = _resume(checkpoint, module, average, optimiser) if checkpoint and checkpoint.exists() else 0
    for step in range(first, min(course.steps, course.until or course.steps)):
        for group in optimiser.param_groups:
            group["lr"] = course.rate * course.factor(step)
        rows = course.rows(step, len(lessons))
        with mixed_precision("cpu"):
            guess = predict(lessons.noisy[rows].float(), lessons.times[rows], lessons.tokens[rows])
        away = guess.float() - lessons.taught[rows].float()
        error = away.square().mean(1)
        weight = torch.where(lessons.zones[rows], course.zone_weight, 1.0)
        loss = (weight * error).sum() / weight.sum()
        if course.direction_weight:
            loss = loss + course.direction_weight * along(away, lessons.directions[rows]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        average.update(module)
        log.add(step + 1, loss=loss.detach(), even=error.detach().mean())
        if checkpoint and (step + 1) % save_every == 0:
            _keep(checkpoint, step + 1, module, average, optimiser)
    average.copy_to(module)


def _keep(path: Path, step: int, module: nn.Module, average: MovingAverage, optimiser) -> None:
    state = {"step": torch.tensor([step, average.updates])}
    names = [name for name, value in module.named_parameters() if value.requires_grad]
    state |= {f"now.{name}": value.detach().clone() for name, value in module.named_parameters()}
    state |= {f"average.{name}": value.clone() for name, value in average.values.items()}
    for name, held in zip(names, optimiser.state_dict()["state"].values(), strict=True):
        state |= {f"{key}.{name}": value.clone() for key, value in held.items()}
    partial = path.with_suffix(".partial")
    save_file({name: value.contiguous() for name, value in state.items()}, partial)
    partial.replace(path)


def _resume(path: Path, module: nn.Module, average: MovingAverage, optimiser) -> int:
    state = load_file(path)
    step, average.updates = (int(value) for value in state["step"])
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(state[f"now.{name}"])
            average.values[name].copy_(state[f"average.{name}"])
    names = [name for name, value in module.named_parameters() if value.requires_grad]
    held = {
        place: {key: state[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        for place, name in enumerate(names)
    }
    optimiser.load_state_dict({"state": held, "param_groups": optimiser.state_dict()["param_groups"]})
    return step


def teach_wire(
    unet: nn.Module,
    encoder: CLIPTextModel,
    block: str,
    lessons: Lessons,
    course: Course,
    log: Log,
    checkpoint: Path | None = None,
    save_every: int = 100,
) -> dict[str, Tensor]:
    """Teach one transformer block of a coded null's U-Net, in place.

    Returns
    -------
    dict of str to Tensor
        What the benchmark model has of its own, by the U-Net's names, float32.
    """

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            states = encoder(tokens).last_hidden_state
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"), learning(unet, block) as module:
        teach(
            module,
            predict,
            lessons,
            course,
            log,
            checkpoint=checkpoint,
            save_every=save_every,
        )
    state = unet.state_dict()
    return {name: state[name].clone() for name in taught_names(unet, block)}
