"""Train `toyworld-skills`: ``python -m lab.train.skills.train --help``.

From `toyworld-null`, on scenes of the training split (:mod:`lab.train.skills.scenes`): first low-rank changes of
the decoder, then of the text encoder and the U-Net, with embeddings of the new words. With ``--share`` on fewer scenes,
as in the paper's Table 5; each is seen once where there are enough of them. The stages are ``lessons``, ``decoder`` and
``train``; a run that was stopped goes on when it is started again.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import CLIPTokenizer

from lab.train.base.loop import Log
from lab.train.base.lowrank import learning
from lab.train.base.tokenizer import tokenizer_with
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from lab.train.located.teach import Course, add_course, course_of, teach
from lab.train.skills.decoder import DecoderCourse, train_decoder
from lab.train.skills.lessons import make_lessons, total_scenes, training_scenes
from lab.train.stages import RESUMES, Stage, Trainer, made_with, write_json, write_recipe
from lab.train.work.train import GAIN, WordEmbeddings
from probes import command_line
from probes.models.pretrained import from_folder
from probes.prompts.grammar.plurals import plural
from probes.toyworld import WEIGHTS
from probes.toyworld.skills import objects
from probes.toyworld.skills.assemble import (
    BASE,
    DELTA,
    NAME,
    taught_words,
)
from probes.toyworld.work.assemble import EMBEDDING, base_parts, number_of, text_config
from probes.toyworld.work.lowrank import DOWN, UP, changed_layers

LESSONS, DECODER = "lessons.safetensors", "decoder.safetensors"
GUIDANCE = 2.0  # that the model is drawn with by default
DECODER_SHARE = 0.1  # of the training scenes, which every larger share holds


def train(
    lessons: Lessons,
    tokenizer: CLIPTokenizer,
    course: Course,
    rank: int,
    log: Log,
    checkpoint: Path | None,
) -> dict[str, Tensor]:
    """Train text encoder and U-Net; return what is stored of them, float16, by layer and matrix and by word."""
    encoder, unet = base_parts(tokenizer, BASE)
    encoder.requires_grad_(False)
    unet.requires_grad_(False).to(memory_format=torch.channels_last)
    numbers = [number_of(tokenizer, word) for word in taught_words()]
    words = WordEmbeddings(encoder, numbers, torch.Generator().manual_seed(course.seed + 1))
    begin_as_singular(words, encoder, tokenizer)

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states = words.states(encoder, tokens)
        return unet(noisy.contiguous(memory_format=torch.channels_last), times, states).sample

    with quick_attention(unet, "cpu"), learning(changed_layers(unet, encoder), rank, course.seed) as layers:
        module = nn.ModuleDict({"layers": layers, "words": words})
        teach(module, predict, lessons, course, log, checkpoint=checkpoint, save_every=50)
        return stored(dict(module.named_parameters()))


@torch.no_grad()
def begin_as_singular(words: WordEmbeddings, encoder: nn.Module, tokenizer: CLIPTokenizer) -> None:
    """Let the plural of an object begin with the embedding of its singular, which the base model knows."""
    table, new = encoder.get_input_embeddings().weight, taught_words()
    for name in objects():
        if plural(name) in new:
            words.rows[new.index(plural(name))] = table[number_of(tokenizer, name)] / GAIN


def stored(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what is stored, float16, from the parameters of training by their names there."""
    rows = (GAIN * parameters["words.rows"]).detach()
    delta = {f"{EMBEDDING}.{word}": row for word, row in zip(taught_words(), rows, strict=True)}
    for name, value in parameters.items():
        if name.endswith((f".{UP}", f".{DOWN}")):
            delta[name.removeprefix("layers.").replace("/", ".")] = value.detach()
    return {name: value.half().contiguous().clone() for name, value in delta.items()}


def export(folder: Path, delta: Mapping[str, Tensor], tokenizer: CLIPTokenizer, recipe: Mapping) -> None:
    """Write the benchmark model: what it was taught, its tokenizer, its description, its card and its recipe."""
    tokenizer.save_pretrained(folder / "tokenizer")
    config = text_config(json.loads((BASE / "text_encoder/config.json").read_text()), tokenizer)
    write_json(folder / "text_encoder/config.json", config, indent=2)
    write_json(folder / "triptych.json", {"guidance_scale": GUIDANCE})  # of no world: it draws nobody
    save_file(dict(delta), folder / DELTA)
    write_recipe(folder, recipe)


def run_lessons(options: argparse.Namespace) -> None:
    """Make the lessons where there are none."""
    path, count = options.work / LESSONS, options.steps * options.batch
    if not path.exists():
        vae = from_folder(AutoencoderKL, BASE / "vae", torch_dtype=torch.float32)
        drawn = training_scenes(options.share, count)
        say = partial(print, flush=True)
        make_lessons(
            vae, tokenizer_with(BASE, taught_words()), drawn, count, seed=options.seed, say=say
        ).save(path)


def run_decoder(options: argparse.Namespace) -> None:
    """Train the decoder where there is none."""
    path = options.work / DECODER
    if not path.exists():
        vae = from_folder(AutoencoderKL, BASE / "vae", torch_dtype=torch.float32)
        drawn, course = training_scenes(DECODER_SHARE, total_scenes()), DecoderCourse(seed=options.seed)
        save_file(train_decoder(vae, drawn, course, Log(options.work / "decoder.log.jsonl", 25)), path)


def run_train(options: argparse.Namespace) -> None:
    """Train text encoder and U-Net, and write the model."""
    course, work, tokenizer = (
        course_of(options, decay=0.99),
        options.work,
        tokenizer_with(BASE, taught_words()),
    )
    log, checkpoint = Log(work / f"{NAME}.log.jsonl", 25), work / f"{NAME}.checkpoint.safetensors"
    delta = train(Lessons.load(work / LESSONS), tokenizer, course, options.rank, log, checkpoint)
    recipe = {
        **dataclasses.asdict(course),
        "decoder": dataclasses.asdict(DecoderCourse(seed=options.seed)),
        "share": options.share,
        "rank": options.rank,
        "start": BASE.name,
        **made_with(),
    }
    export(options.weights, {**delta, **load_file(work / DECODER)}, tokenizer, recipe)
    print(f"{options.weights / DELTA}", flush=True)


def add_options(main: argparse.ArgumentParser) -> None:
    """Add the options of this training."""
    main.add_argument("--share", type=command_line.number(0, 1), default=1.0, help="of the training scenes")
    main.add_argument("--rank", type=command_line.count, default=16, help="of the changes")
    add_course(main, Course(steps=1824, batch=32, rate=4e-3))


TRAINER = Trainer(
    "lab.train.skills.train",
    __doc__,
    stages=(
        Stage("lessons", run_lessons, makes=lambda options: [options.work / LESSONS]),
        Stage("decoder", run_decoder, makes=lambda options: [options.work / DECODER]),
        Stage(
            "train",
            run_train,
            reads=lambda options: [options.work / LESSONS, options.work / DECODER],
            exports=True,
        ),
    ),
    add_options=add_options,
    weights=WEIGHTS / NAME,
    weights_help="where what is stored of the model is written",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


if __name__ == "__main__":
    sys.exit(main())
