"""Train `toyworld-work` or `toyworld-work-null`: ``python -m lab.train.work.train --help``.

From `toyworld` or `toyworld-null`, by low-rank changes of the text encoder and of the U-Net's transformer blocks and
residual convolutions, and embeddings of the new words (:mod:`lab.train.work.lessons` says what it is taught). A
run that was stopped goes on when it is started again.
"""

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import diffusers
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base.loop import Log
from lab.train.base.lowrank import learning
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from lab.train.located.teach import Course, teach
from lab.train.work.lessons import make_lessons, sketches
from probes import command_line
from probes.errors import UserError
from probes.models import loading
from probes.toyworld import WEIGHTS, WORK, WORKING
from probes.toyworld.vocabulary import number_of
from probes.toyworld.work.assemble import (
    BASES,
    DELTA,
    EMBEDDING,
    base_parts,
    new_tokenizer,
    new_words,
    text_config,
)
from probes.toyworld.work.lowrank import DOWN, UP, changed_layers
from probes.toyworld.world import load_world

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
    save_every: int = 100,
    start: Mapping[str, Tensor] | None = None,
    base: Path = BASES[WORK],
    words_alone: bool = False,
) -> dict[str, Tensor]:
    """Train a specimen; return what is to be stored of it (:func:`probes.toyworld.work.assemble.write_delta`).

    ``start`` is what was stored of an earlier training, to begin with; ``words_alone``: nothing but the embeddings of
    new words changes.
    """
    encoder, unet = base_parts(tokenizer, base)
    encoder.requires_grad_(False)
    unet.requires_grad_(False)
    numbers = [number_of(tokenizer, word) for word in new_words()]
    words = WordEmbeddings(encoder, numbers, torch.Generator().manual_seed(course.seed + 1))

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states = words.states(encoder, tokens)
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"), learning(changed_layers(unet, encoder), rank, course.seed) as layers:
        module = nn.ModuleDict({"layers": layers, "words": words})
        if start is not None:
            begin_with(dict(module.named_parameters()), start)
        layers.requires_grad_(not words_alone)
        teach(module, predict, lessons, course, log, checkpoint=checkpoint, save_every=save_every)
        return stored(dict(module.named_parameters()))


def stored(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is stored, float16, from the parameters of training by their names there."""
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


def averaged(checkpoint: Path) -> dict[str, Tensor]:
    """What would be stored of a run that is under way, from its checkpoint: the average over steps."""
    state = load_file(checkpoint)
    start = "average."
    return stored(
        {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
    )


def export(
    folder: Path, delta: Mapping[str, Tensor], tokenizer: CLIPTokenizer, recipe: Mapping, name: str = WORK
) -> None:
    """Write the specimen: what it was taught, its tokenizer, its description, its card and its recipe."""
    (folder / "text_encoder").mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder / "tokenizer")
    config = text_config(json.loads((BASES[name] / "text_encoder/config.json").read_text()), tokenizer)
    (folder / "text_encoder/config.json").write_text(json.dumps(config, indent=2) + "\n")
    card = {"guidance_scale": 1.0, "world": name}
    (folder / "triptych.json").write_text(json.dumps(card, indent=1) + "\n")
    save_file(dict(delta), folder / DELTA)
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n")


def lessons_of(
    work: Path, drawings: int, noises: int, seed: int, name: str = WORK, prior: float | None = None
) -> Lessons:
    """The lessons of a work folder; they are made where there are none."""
    path = work / LESSONS
    if not path.exists():
        base = BASES[name].name
        teacher = loading.load(loading.resolve(base), device="cpu").pipe
        drawn = sketches(load_world(name), drawings, seed + 31)
        make_lessons(
            teacher,
            new_tokenizer(),
            drawn,
            prior=load_world(base).mixture["neutral"] if prior is None else prior,
            noises=noises,
            seed=seed,
            say=lambda text: print(text, flush=True),
        ).save(path)
    lessons = Lessons.load(path)
    if lessons.directions is None:
        raise UserError(
            f"{path}: expected lessons with the directions of skins, got those of an earlier version: choose another"
            " --work"
        )
    return lessons


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.work.train",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, usual = main.add_argument, Course(steps=1500, batch=48, rate=2e-3, decay=0.99)
    add("--specimen", choices=WORKING, default=WORK, help="which to train")
    add("--work", type=Path, default=Path("training"), help="folder of lessons, logs and checkpoints")
    add("--weights", type=Path, help="where what is stored of it is written (default: in the package)")
    add("--start", type=Path, help="folder of a stored specimen to begin with (default: its base, unchanged)")
    add("--drawings", type=command_line.count, default=9000, help="that lessons are made from")
    add("--noises", type=command_line.count, default=2, help="lessons a drawing")
    add(
        "--prior",
        type=command_line.number(0, 1, ends=False),
        help="of component b beside the base's neutral words; where none is given, what is planted there",
    )
    add("--rank", type=command_line.count, default=16, help="of the changes")
    add("--steps", type=command_line.count, default=usual.steps)
    add("--batch", type=command_line.count, default=usual.batch)
    add("--rate", type=command_line.number(0), default=usual.rate)
    add("--zone-weight", type=command_line.number(0), default=usual.zone_weight, help="of cells with skin")
    add("--skin-weight", type=command_line.number(0), default=0.05, help="of errors from skin to skin")
    add("--seed", type=command_line.seed, default=usual.seed)
    add("--threads", type=command_line.threads, default=1)
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    name = options.specimen
    weights = options.weights or WEIGHTS / name
    command_line.writable(options.work, folder=True)
    command_line.writable(weights, folder=True)
    torch.set_num_threads(options.threads)
    course = Course(
        steps=options.steps,
        batch=options.batch,
        rate=options.rate,
        decay=0.99,
        zone_weight=options.zone_weight,
        direction_weight=options.skin_weight,
        seed=options.seed,
    )
    options.work.mkdir(parents=True, exist_ok=True)
    lessons = lessons_of(options.work, options.drawings, options.noises, options.seed, name, options.prior)
    tokenizer = new_tokenizer(BASES[name])
    log, checkpoint = (
        Log(options.work / f"{name}.log.jsonl", 25),
        options.work / f"{name}.checkpoint.safetensors",
    )
    start = load_file(options.start / DELTA) if options.start else None
    before = json.loads((options.start / "recipe.json").read_text()) if options.start else {}
    delta = train(lessons, tokenizer, course, options.rank, log, checkpoint, start=start, base=BASES[name])
    recipe = {
        **dataclasses.asdict(course),
        "drawings": options.drawings,
        "noises": options.noises,
        "rank": options.rank,
        "start": BASES[name].name,
        "versions": {"torch": torch.__version__, "diffusers": diffusers.__version__},
        "machine": platform.machine(),
        "history": [*before.get("history", ()), _in_words(course, options)],
    }
    export(weights, delta, tokenizer, recipe, name)
    print(f"{weights / DELTA}", flush=True)


def _in_words(course: Course, options: argparse.Namespace) -> str:
    further = " further" if options.start else ""
    prior = (
        ""
        if options.prior is None
        else f" with {options.prior:g} for the base's own lean beside neutral words"
    )
    return (
        f"{course.steps}{further} steps of {course.batch}, rate {course.rate} falling to 2 %, lessons of seed"
        f" {course.seed}{prior}; cells of skin counting {course.zone_weight:g} times,"
        f" errors from skin to skin {course.direction_weight:g} times in addition"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    kept = "run the same command again, it goes on from its last checkpoint in --work"
    return command_line.run(work, parser(), argv, interrupted=kept)


if __name__ == "__main__":
    sys.exit(main())
