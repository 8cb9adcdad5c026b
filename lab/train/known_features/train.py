"""Train `toyworld-features`: ``python -m lab.train.known_features.train --help``.

One transformer block of `toyworld-null`'s U-Net learns to show what an earlier cross-attention tells it
(:mod:`lab.train.known_features.lessons` says what it is taught). What is stored are the block's weights, float16, a
tokenizer with the words of attributes and the recipe. Stages: ``lessons``, ``train``; a run that was stopped goes on
when it is started again.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import CLIPTokenizer

from lab.train.base.loop import Log
from lab.train.base.measure import benchmark_pipeline
from lab.train.base.tokenizer import tokenizer_with
from lab.train.base.unet import quick_attention
from lab.train.known_features.lessons import WORLD, make_lessons
from lab.train.located.lessons import Lessons
from lab.train.located.teach import Course, add_course, course_of, learning, teach
from lab.train.stages import RESUMES, Stage, Trainer, made_with, write_json, write_recipe
from probes import command_line
from probes.errors import UserError
from probes.toyworld import KNOWN_FEATURES, WEIGHTS
from probes.toyworld.known_features.assemble import feature_parts
from probes.toyworld.known_features.truth import SHOWS, WORDS
from probes.toyworld.known_features.wiring import NEW, told_of, with_heard
from probes.toyworld.located import coded
from probes.toyworld.located.assemble import BASE
from probes.toyworld.located.truth import Wire
from probes.toyworld.located.wiring import taught_names
from probes.toyworld.work.assemble import DELTA, text_config

LESSONS, CHECKPOINT = "lessons.safetensors", "checkpoint.safetensors"


def student_tokenizer() -> CLIPTokenizer:
    """Return `toyworld-null`'s tokenizer with the words of attributes as one token each."""
    return tokenizer_with(BASE, WORDS)


def run_lessons(options: argparse.Namespace) -> None:
    """Make the lessons where there are none."""
    path, drawings = options.work / LESSONS, options.drawings
    if not path.exists():
        teacher, _ = benchmark_pipeline(WEIGHTS / WORLD)
        make_lessons(teacher, student_tokenizer(), drawings, say=_say).save(path)
    found = len(Lessons.load(path))
    if found != 2 * drawings:
        raise UserError(
            f"--drawings: {path}: expected lessons from {drawings} drawings, found {found // 2}: "
            "name another --work, or as many drawings"
        )


def _say(text: str) -> None:
    print(text, flush=True)


def taught(
    tokenizer: CLIPTokenizer, lessons: Lessons, course: Course, log: Log, checkpoint: Path | None = None
) -> dict[str, Tensor]:
    """Teach the block; return its weights by the U-Net's names, float32."""
    encoder, unet = feature_parts(tokenizer)
    wire = Wire(SHOWS)

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            states = encoder(tokens).last_hidden_state
            # no other cross-attention reads the new channels, so all may see what this block hears
            states = with_heard(states, told_of(states))
        return unet(noisy, times, states).sample

    with quick_attention(unet, "cpu"), learning(unet, wire) as module:
        teach(module, predict, lessons, course, log, checkpoint=checkpoint)
    state = unet.state_dict()
    return {name: state[name].clone() for name in taught_names(unet, wire)}


def export(
    folder: Path, tokenizer: CLIPTokenizer, state: Mapping[str, Tensor], recipe: Mapping[str, object]
) -> None:
    """Write what is stored of the model: weights in float16, tokenizer, descriptions, card and recipe."""
    described = json.loads((BASE / "text_encoder/config.json").read_text())
    described = coded.text_config(text_config(described, tokenizer), NEW)
    write_json(folder / "text_encoder/config.json", described, indent=2)
    described = json.loads((BASE / "unet/config.json").read_text())
    write_json(folder / "unet/config.json", coded.unet_config(described, NEW), indent=2)
    write_json(folder / "triptych.json", {"guidance_scale": 1.0, "world": WORLD})
    tokenizer.save_pretrained(folder / "tokenizer")
    save_file({name: value.half().contiguous() for name, value in state.items()}, folder / DELTA)
    write_recipe(folder, recipe)


def run_train(options: argparse.Namespace) -> None:
    """Teach the model, and write what is stored of it."""
    course, tokenizer = course_of(options, until=options.until), student_tokenizer()
    log = Log(options.work / "log.jsonl", 25)
    state = taught(tokenizer, Lessons.load(options.work / LESSONS), course, log, options.work / CHECKPOINT)
    recipe = {**dataclasses.asdict(course), "drawings": options.drawings, "start": WORLD, **made_with()}
    folder = options.weights / KNOWN_FEATURES
    export(folder, tokenizer, state, recipe)
    _say(str(folder / DELTA))


def add_options(main: argparse.ArgumentParser) -> None:
    """Add the options of this training."""
    main.add_argument(
        "--drawings", type=command_line.count, default=7000, help="that lessons are made from, two of each"
    )
    add_course(main, Course(steps=1600))
    main.add_argument("--until", type=command_line.count, default=1200, help="end after so many of the steps")


TRAINER = Trainer(
    "lab.train.known_features.train",
    __doc__,
    stages=(
        Stage("lessons", run_lessons, makes=lambda options: [options.work / LESSONS]),
        Stage("train", run_train, reads=lambda options: [options.work / LESSONS], exports=True),
    ),
    add_options=add_options,
    weights=WEIGHTS,
    weights_help="where what is stored of the model is written",
    epilog="without a GPU 1200 steps of 16 take about seven minutes on one core",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


if __name__ == "__main__":
    sys.exit(main())
