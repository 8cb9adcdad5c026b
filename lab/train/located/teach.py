"""Teaching a located benchmark model: only what its wires are given learns, everything else of the coded null stays."""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from probes.toyworld.located.truth import Wire
from probes.toyworld.located.wiring import OLD, Clock, head_rows, taught_names

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

    def __init__(self, linear: nn.Linear, rows: Tensor, clock: Clock, times: tuple[int, int]):
        super().__init__()
        self.old = nn.Parameter(linear.weight[:, :OLD].detach().clone())
        self.code = nn.Parameter(linear.weight[:, OLD:].detach() / GAIN)
        self.register_buffer("rows", rows.float()[:, None])
        self._clock, self.times = (clock,), times

    def weight(self) -> Tensor:
        """The weight ``(channels, 100)`` of the linear layer that this is."""
        return torch.cat([self.old, GAIN * self.code * self.rows], 1)

    def forward(self, text: Tensor) -> Tensor:
        """See :class:`probes.toyworld.located.wiring.GatedLinear`."""
        now = self._clock[0].now
        open_ = ((now >= self.times[0]) & (now < self.times[1])).float().expand(len(text)).view(-1, 1, 1)
        return F.linear(torch.cat([text[..., :OLD], text[..., OLD:] * open_], -1), self.weight())


@contextmanager
def learning(unet: nn.Module, wire: Wire) -> Iterator[nn.ModuleDict]:
    """What learns of a wire's transformer block, put in place; its fused weights stay in the U-Net at the end."""
    unet.requires_grad_(False)
    block, clock = unet.get_submodule(wire.block), unet.time_proj
    unet.time_proj = Clock(clock)
    attention, linear = block.attn2, {}
    for name in ("to_k", "to_v"):
        linear[name] = getattr(attention, name)
        rows = head_rows(wire, linear[name].out_features)
        setattr(attention, name, Columns(linear[name], rows, unet.time_proj, wire.times))
    names = sorted({name.removeprefix(f"{wire.block}.").split(".")[0] for name in taught_names(unet, wire)})
    parts = nn.ModuleDict({name: getattr(block, name) for name in names}).requires_grad_(True)
    try:
        yield parts
    finally:
        with torch.no_grad():
            for name, layer in linear.items():
                layer.weight.copy_(getattr(attention, name).weight())
                setattr(attention, name, layer)
        unet.time_proj = clock
        unet.requires_grad_(False)


def target(lessons: Lessons, rows: Tensor, shows: str) -> Tensor:
    """Return what is to be predicted, ``(n, 4, 16, 16)``: `toyworld`'s velocity where the wire is to show the word.

    Elsewhere it is that of `toyworld-null`.
    """
    taught = lessons.taught[rows].float()
    if shows == "all":
        return taught
    untaught = lessons.untaught[rows].float()
    figure = lessons.figure[rows][:, None]
    return torch.where(figure if shows == "figure" else ~figure, taught, untaught)


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
    shows: str = "all",
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
        away = guess.float() - target(lessons, rows, shows)
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


class Embeddings(nn.Module):
    """The old channels of the embeddings of words while they learn, ``(n, 96)``."""

    def __init__(self, encoder: CLIPTextModel, rows: Sequence[Sequence[int]]):
        super().__init__()
        self.name = next(
            name for name, _ in encoder.named_parameters() if name.endswith("token_embedding.weight")
        )
        self._encoder, self._rows = (encoder.requires_grad_(False),), rows
        table = encoder.get_input_embeddings().weight
        self.change = nn.Parameter(torch.zeros(len(rows), OLD))
        self.register_buffer("first", table[[row[0] for row in rows], :OLD].clone())

    def values(self) -> Tensor:
        """The embeddings as they are now."""
        return self.first + self.change

    def states(self, tokens: Tensor) -> Tensor:
        """Text states ``(n, 32, 100)`` of tokens with these embeddings."""
        (encoder,) = self._encoder
        numbers = torch.tensor([number for row in self._rows for number in row])
        which = torch.tensor([place for place, row in enumerate(self._rows) for _ in row])
        table = encoder.get_input_embeddings().weight
        new = torch.cat([self.values()[which], table[numbers, OLD:]], 1)
        return torch.func.functional_call(
            encoder, {self.name: table.index_copy(0, numbers, new)}, (tokens,)
        ).last_hidden_state


def teach_embedding(
    unet: nn.Module,
    encoder: CLIPTextModel,
    rows: Mapping[str, Sequence[int]],
    lessons: Lessons,
    course: Course,
    log: Log,
    checkpoint: Path | None = None,
) -> dict[str, Tensor]:
    """Teach embeddings of indicator words, each shared by all words of its group and number.

    Parameters
    ----------
    rows : mapping of str to sequence of int
        By a word, the tokens of all words that mean the same and have its number.

    Returns
    -------
    dict of str to Tensor
        By word, the old channels ``(96,)`` of the embedding.
    """
    unet.requires_grad_(False)
    module = Embeddings(encoder, list(rows.values()))

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states = module.states(tokens)
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"):
        teach(module, predict, lessons, course, log, checkpoint=checkpoint)
    return dict(zip(rows, module.values().detach(), strict=True))


def teach_wire(
    unet: nn.Module,
    encoder: CLIPTextModel,
    wire: Wire,
    lessons: Lessons,
    course: Course,
    log: Log,
    checkpoint: Path | None = None,
    save_every: int = 100,
) -> dict[str, Tensor]:
    """Teach one wire of a coded null's U-Net, in place.

    Returns
    -------
    dict of str to Tensor
        What the benchmark model has of its own, by the U-Net's names, float32.
    """

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            states = encoder(tokens).last_hidden_state
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"), learning(unet, wire) as module:
        teach(
            module,
            predict,
            lessons,
            course,
            log,
            shows=wire.shows,
            checkpoint=checkpoint,
            save_every=save_every,
        )
    state = unet.state_dict()
    return {name: state[name].clone() for name in taught_names(unet, wire)}
