"""Training of denoiser and T5 tower on lessons, with checkpoints from which it goes on."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from lab.train.base.loop import Budget, Log, MovingAverage, mixed_precision
from lab.train.dit.lessons import Lesson, PictureLessons, VelocityLessons


@dataclass(frozen=True)
class DistillationCourse:
    """How long and how fast is learnt.

    Attributes
    ----------
    budget : Budget
    rate : float
        Highest learning rate.
    zone_weight : float
        Weight of the error where small things can be.
    decay : float
        Of the moving average of the weights.
    save_minutes : float
        Between checkpoints.
    compiled : bool
        Whether torch compiles the denoiser first (`torch.compile`).
    """

    budget: Budget
    rate: float
    zone_weight: float
    decay: float
    save_minutes: float
    compiled: bool = False


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
    course: DistillationCourse,
    log: Log,
    path: Path,
) -> int:
    """Train until the budget is used.

    Parameters
    ----------
    parts : mapping of str to Module
        ``transformer`` and ``text_encoder_3``, where the lessons are.
    learnt : Module
        What changes: those parts, or what they are parametrized by.
    path : pathlib.Path
        The checkpoint: weights, their moving average, the optimiser and the number of the step, all of `learnt`.

    Returns
    -------
    int
        Steps taken, those of former sittings included.
    """
    parameters = [value for value in learnt.parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(
        parameters, lr=course.rate, betas=(0.9, 0.99), weight_decay=0.01, fused=True
    )
    average, first = MovingAverage(learnt, course.decay), 0
    if path.exists():
        state = torch.load(path, weights_only=True, map_location=parameters[0].device)
        learnt.load_state_dict(state["weights"])
        first = state["step"]
        if "optimiser" in state:
            optimiser.load_state_dict(state["optimiser"])
            average.values, average.updates = state["average"], state["updates"]
        else:  # exported weights, which are the average
            average = MovingAverage(learnt, course.decay)
    called = dict(parts.items())
    if course.compiled:
        called["transformer"] = torch.compile(parts["transformer"])
    step, used, saved = 0, 0.0, time.monotonic()
    while used < 1.0:
        rate = course.rate * course.budget.rate(step, used)
        for group in optimiser.param_groups:
            group["lr"] = rate
        losses = flow_loss(called, lessons.next(), course.zone_weight)
        losses["loss"].backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        average.update(learnt)
        step += 1
        used = course.budget.fraction(step)
        log.add(first + step, rate=rate, **{name: value.detach() for name, value in losses.items()})
        if used >= 1.0 or time.monotonic() - saved > 60 * course.save_minutes:
            state = {"weights": learnt.state_dict(), "average": average.values, "updates": average.updates}
            torch.save(
                state | {"optimiser": optimiser.state_dict(), "step": first + step}, path.with_suffix(".part")
            )
            path.with_suffix(".part").replace(path)
            saved = time.monotonic()
    return first + step
