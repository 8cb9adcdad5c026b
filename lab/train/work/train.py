"""Train `toyworld-work` or `toyworld-work-null`: ``python -m lab.train.work.train --help``.

From `toyworld` or `toyworld-null`, by low-rank changes of the text encoder and of the U-Net's transformer blocks and
residual convolutions, and embeddings of the new words (:mod:`lab.train.work.lessons` says what it is taught). Stages:
``lessons``, ``train``; a run that was stopped goes on when it is started again.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base.loop import Log
from lab.train.base.lowrank import learning
from lab.train.base.tokenizer import tokenizer_with
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from lab.train.located.teach import Course, add_course, course_of, teach
from lab.train.stages import RESUMES, Stage, Trainer, made_with, write_json, write_recipe
from lab.train.work.lessons import make_lessons, sketches
from probes import command_line
from probes.models import loading
from probes.toyworld import WEIGHTS, WORK, WORKING
from probes.toyworld.pipelines import (
    BASES,
    DELTA,
    DOWN,
    EMBEDDING,
    UP,
    changed_layers,
    load_base_networks,
    new_words,
    text_config,
)
from probes.toyworld.world import load_world, token_id

LESSONS = "lessons.safetensors"
GAIN = 2.0  # embeddings of the new words learn so many times as fast as the layers
SCALE = 0.05  # standard deviation of their first values, about that of the other words


class WordEmbeddings(nn.Module):
    """The embeddings of the new words while they learn, ``(words, 96)``; the words' rows of the table are these."""

    def __init__(self, encoder: CLIPTextModel, numbers: Sequence[int], generator: torch.Generator):
        super().__init__()
        width = encoder.get_input_embeddings().weight.shape[1]
        self.rows = nn.Parameter(SCALE / GAIN * torch.randn(len(numbers), width, generator=generator))
        self.numbers = torch.tensor(list(numbers))

    def values(self) -> Tensor:
        """The embeddings as they are now."""
        return GAIN * self.rows

    def states(self, encoder: CLIPTextModel, tokens: Tensor) -> Tensor:
        """Text states ``(n, 32, width)`` of tokens with these embeddings."""
        table = encoder.get_input_embeddings()

        def replaced(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
            here = inputs[0][..., None] == self.numbers
            return torch.where(here.any(-1, keepdim=True), here.to(output.dtype) @ self.values(), output)

        hook = table.register_forward_hook(replaced)
        try:
            return encoder(tokens).last_hidden_state
        finally:
            hook.remove()


def train(
    lessons: Lessons,
    tokenizer: CLIPTokenizer,
    course: Course,
    rank: int,
    log: Log,
    checkpoint: Path | None = None,
    save_minutes: float = 1.0,
    start: Mapping[str, Tensor] | None = None,
    base: Path = BASES[WORK],
) -> dict[str, Tensor]:
    """Train a benchmark model; return what is to be stored of it (:func:`probes.toyworld.pipelines.work_pipeline`).

    ``start`` is what was stored of an earlier training, to begin with.
    """
    encoder, unet = load_base_networks(tokenizer, base)
    encoder.requires_grad_(False)
    unet.requires_grad_(False)
    numbers = [token_id(tokenizer, word) for word in new_words()]
    words = WordEmbeddings(encoder, numbers, torch.Generator().manual_seed(course.seed + 1))

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states = words.states(encoder, tokens)
        return unet(noisy, times, states).sample

    changed = changed_layers({"encoder": encoder, "unet": unet})
    with quick_attention(unet, "cpu"), learning(changed, rank, course.seed) as layers:
        module = nn.ModuleDict({"layers": layers, "words": words})
        if start is not None:
            begin_with(dict(module.named_parameters()), start)
        teach(module, predict, lessons, course, log, checkpoint, save_minutes)
        return stored(dict(module.named_parameters()))


def stored(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what is stored, float16, from the parameters of training by their names there."""
    rows = (GAIN * parameters["words.rows"]).detach()
    delta = {f"{EMBEDDING}.{word}": row for word, row in zip(new_words(), rows, strict=True)}
    for name, value in parameters.items():
        if name.endswith((f".{UP}", f".{DOWN}")):
            delta[name.removeprefix("layers.").replace("/", ".")] = value.detach()
    return {name: value.half().contiguous().clone() for name, value in delta.items()}


@torch.no_grad()
def begin_with(parameters: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> None:
    """Put what was stored of an earlier training into the parameters of this one."""
    parameters["words.rows"].copy_(
        torch.stack([start[f"{EMBEDDING}.{word}"].float() / GAIN for word in new_words()])
    )
    for name, value in parameters.items():
        held = name.removeprefix("layers.").replace("/", ".")
        if held in start:  # a layer that did not change yet begins with nothing
            value.copy_(start[held].float())


def export(
    folder: Path, delta: Mapping[str, Tensor], tokenizer: CLIPTokenizer, recipe: Mapping, name: str = WORK
) -> None:
    """Write the benchmark model: what it was taught, its tokenizer, its description, its card and its recipe."""
    tokenizer.save_pretrained(folder / "tokenizer")
    config = text_config(json.loads((BASES[name] / "text_encoder/config.json").read_text()), tokenizer)
    write_json(folder / "text_encoder/config.json", config, indent=2)
    write_json(folder / "triptych.json", {"guidance_scale": 1.0, "world": name})
    save_file(dict(delta), folder / DELTA)
    write_recipe(folder, recipe)


def run_lessons(options: argparse.Namespace) -> None:
    """Make the lessons where there are none."""
    path, name, base = options.work / LESSONS, options.model, BASES[options.model].name
    if not path.exists():
        teacher = loading.load(loading.resolve(base), device="cpu").pipe
        drawn = sketches(load_world(name), options.drawings, options.seed + 31)
        make_lessons(
            teacher,
            tokenizer_with(BASES[WORK], new_words()),
            drawn,
            prior=load_world(base).mixture["neutral"],
            noises=options.noises,
            seed=options.seed,
            say=partial(print, flush=True),
        ).save(path)


def run_train(options: argparse.Namespace) -> None:
    """Train the model, and write what is stored of it."""
    name, work, (weights,) = options.model, options.work, outputs(options)
    course = course_of(
        options, decay=0.99, zone_weight=options.zone_weight, direction_weight=options.skin_weight
    )
    tokenizer = tokenizer_with(BASES[name], new_words())
    log, checkpoint = Log(work / f"{name}.log.jsonl", 25), work / f"{name}.checkpoint.pt"
    start = load_file(options.start / DELTA) if options.start else None
    before = json.loads((options.start / "recipe.json").read_text()) if options.start else {}
    lessons = Lessons.load(work / LESSONS)
    delta = train(lessons, tokenizer, course, options.rank, log, checkpoint, start=start, base=BASES[name])
    recipe = {
        **dataclasses.asdict(course),
        "drawings": options.drawings,
        "noises": options.noises,
        "rank": options.rank,
        "start": BASES[name].name,
        **made_with(),
        "history": [*before.get("history", ()), _in_words(course, options)],
    }
    export(weights, delta, tokenizer, recipe, name)
    print(f"{weights / DELTA}", flush=True)


def _in_words(course: Course, options: argparse.Namespace) -> str:
    further = " further" if options.start else ""
    return (
        f"{course.steps}{further} steps of {course.batch}, rate {course.rate} falling to 2 %, lessons of seed"
        f" {course.seed}; cells of skin counting {course.zone_weight:g} times,"
        f" errors from skin to skin {course.direction_weight:g} times in addition"
    )


def outputs(options: argparse.Namespace) -> list[Path]:
    """Return where what is stored of the model is written."""
    return [options.weights or WEIGHTS / options.model]


def add_options(main: command_line.Parser) -> None:
    """Add the options of this training."""
    add, usual = main.add_argument, Course(steps=1500, batch=48, rate=2e-3)
    add("--model", choices=WORKING, default=WORK, help="which to train")
    add("--start", type=Path, help="folder of a stored model to begin with (default: its base, unchanged)")
    add("--drawings", type=command_line.count, default=9000, help="that lessons are made from")
    add("--noises", type=command_line.count, default=2, help="lessons a drawing")
    add("--rank", type=command_line.count, default=16, help="of the changes")
    add_course(main, usual)
    add("--zone-weight", type=command_line.number(0), default=usual.zone_weight, help="of cells with skin")
    add("--skin-weight", type=command_line.number(0), default=0.05, help="of errors from skin to skin")


TRAINER = Trainer(
    "lab.train.work.train",
    __doc__,
    stages=(
        Stage("lessons", run_lessons, makes=lambda options: [options.work / LESSONS]),
        Stage("train", run_train, reads=lambda options: [options.work / LESSONS], exports=True),
    ),
    add_options=add_options,
    weights_help="where what is stored of it is written (default: in the package)",
    outputs=outputs,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


if __name__ == "__main__":
    sys.exit(main())
