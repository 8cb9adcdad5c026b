"""Train the benchmark models whose location is known: ``python -m lab train located --help``.

Each is taught what `toyworld` predicts (:mod:`lab.train.located.lessons`), from the coded null: only what its wire is
given learns. What is stored of a model are the weights of its wire, float16, and its recipe. A training that was
stopped goes on when it is started again. Without a GPU 500 steps of 16 take about four minutes on one core.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPTextModel

from lab.train.base.loop import Budget, Log, mixed_precision, train_loop
from lab.train.base.measure import benchmark_pipeline
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import WORLD, Lessons, make_lessons
from lab.train.stages import Options, Stage, Trainer, write_json, write_recipe
from probes.toyworld import WEIGHTS
from probes.toyworld.coded import CHANNELS, OLD, trained_parameter_names
from probes.toyworld.pipelines import DELTA, NULL, load_coded_networks
from probes.toyworld.places import known_places

CODED = "toyworld-coded-null"
LOCATED = tuple(name for name, model in known_places("located").items() if model.sites)
# Columns for the code learn so many times as fast as the rest: at one rate for both (1e-3) nothing came of them.
GAIN = 30.0


@dataclass
class Course:
    """Every number of a benchmark model's training on lessons."""

    steps: int = 500
    batch: int = 16
    rate: float = 1e-3
    warmup: int = 20
    decay: Annotated[float, "of the moving average of the weights"] = 0.98
    zone_weight: Annotated[float, "of errors in cells that count more"] = 5.0
    direction_weight: Annotated[float, "of errors along the lessons' directions, in addition"] = 0.0


@dataclass
class LocatedRecipe(Course):
    """Every number of the training of located models."""

    model: Annotated[Sequence[str], (*LOCATED, CODED), f"{CODED}: its description alone"] = (*LOCATED, CODED)
    drawings: Annotated[int, "that lessons are made from, two of each"] = 5000


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


def lesson_rows(course: Course | Options, step: int, total: int) -> Tensor:
    """Rows of a step's lessons; none comes twice before all have."""
    a_turn = total // course.batch
    generator = torch.Generator().manual_seed(course.seed + 1000 * (step // a_turn))
    start = step % a_turn * course.batch
    return torch.randperm(total, generator=generator)[start : start + course.batch]


def teach(
    module: nn.Module,
    predict: Callable[[Tensor, Tensor, Tensor], Tensor],
    lessons: Lessons,
    options: Options,
    name: str,
    save_minutes: float = 1.0,
) -> None:
    """Train the parameters of ``module`` that learn; the average over steps is what remains.

    ``predict`` gives the velocity ``(n, 4, 16, 16)`` of noisy latents, times and tokens. The numbers are those of a
    `Course`. Training goes on from its checkpoint in the work folder, if there is one.
    """

    def loss_of(step: int) -> dict[str, Tensor]:
        rows = lesson_rows(options, step, len(lessons))
        with mixed_precision("cpu"):
            guess = predict(lessons.noisy[rows].float(), lessons.times[rows], lessons.tokens[rows])
        away = guess.float() - lessons.taught[rows].float()
        error = away.square().mean(1)
        weight = torch.where(lessons.zones[rows], options.zone_weight, 1.0)
        loss = (weight * error).sum() / weight.sum()
        if options.direction_weight:
            loss = loss + options.direction_weight * along(away, lessons.directions[rows]).mean()
        return {"loss": loss, "even": error.mean()}

    train_loop(
        module,
        loss_of,
        Budget(options.steps, warmup=options.warmup),
        Log(options.work / f"{name}.log.jsonl", 25),
        options.rate,
        0.0,
        decay=options.decay,
        save_minutes=save_minutes,
        checkpoint=options.work / f"{name}.checkpoint.pt",
    )


def teach_wire(
    unet: nn.Module,
    encoder: CLIPTextModel,
    block: str,
    lessons: Lessons,
    options: Options,
    name: str,
    save_minutes: float = 1.0,
) -> dict[str, Tensor]:
    """Teach one transformer block of a coded null's U-Net, in place; its weights by the U-Net's names, float32."""

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            states = encoder(tokens).last_hidden_state
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"), learning(unet, block) as module:
        teach(module, predict, lessons, options, name, save_minutes)
    state = unet.state_dict()
    return {name: state[name].clone() for name in trained_parameter_names(unet, block)}


def _lessons(options: Options) -> Path:
    return options.work / f"lessons-{options.drawings}.safetensors"


def run_lessons(options: Options) -> None:
    """Make the lessons where there are none and some model is taught."""
    if {*options.model} - {CODED} and not _lessons(options).exists():
        make_lessons(benchmark_pipeline(WEIGHTS / WORLD)[0], options.drawings).save(_lessons(options))


def export_null(folder: Path) -> None:
    """Write the descriptions of the coded null, of which no weights are stored."""
    width = OLD + CHANNELS
    described = {
        # the same share of the variance is added in the wider layer norms
        "text_encoder": {
            "hidden_size": width,
            "projection_dim": width,
            "layer_norm_eps": round(1e-5 * OLD / width, 12),
        },
        "unet": {"cross_attention_dim": width},
    }
    for part, changed in described.items():
        config = json.loads((NULL / part / "config.json").read_text()) | changed
        write_json(folder / part / "config.json", config, indent=2)


def run_train(options: Options) -> None:
    """Train each model that was asked for."""
    for name in {*options.model} - {CODED}:
        (place,), (encoder, unet, _) = known_places("located")[name].places, load_coded_networks()
        state = teach_wire(unet, encoder, place.block, Lessons.load(_lessons(options)), options, name)
        state = {key: value.half().contiguous() for key, value in state.items()}
        save_file(state, options.work / f"{name}.safetensors")


def run_export(options: Options) -> None:
    """Write what is stored of each model: its card, its weights in float16, and its recipe."""
    for name in options.model:
        model, folder = known_places("located")[name], options.weights / name
        write_json(folder / "triptych.json", {"guidance_scale": 1.0, "world": model.world})
        if name == CODED:
            export_null(folder)
        else:
            save_file(load_file(options.work / f"{name}.safetensors"), folder / DELTA)
            write_recipe(folder, options, start=CODED)


def _trained(options: Options) -> list[str]:
    return [f"{name}.safetensors" for name in options.model if name != CODED]


TRAINER = Trainer(
    __doc__,
    LocatedRecipe,
    stages=(
        Stage("lessons", run_lessons),
        Stage("train", run_train, makes=("{model}.safetensors",)),
        Stage("export", run_export, needs=_trained, exports=True),
    ),
    work="training/located",
    weights=WEIGHTS / "located",
)
