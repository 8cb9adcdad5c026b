"""Train `toyworld-skills`: ``python -m lab.train.skills.train --help``.

From `toyworld-null`, on scenes of the training split (:mod:`probes.toyworld.skills.scenes`): first low-rank changes of
the decoder, then of the text encoder and the U-Net, with embeddings of the new words. With ``--share`` on fewer scenes,
as in the paper's Table 5; each is seen once where there are enough of them. A run that was stopped goes on when it is
started again.
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
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import CLIPTokenizer

from lab.train.base.loop import Log
from lab.train.base.lowrank import learning
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from lab.train.located.teach import Course, teach
from lab.train.skills.decoder import DecoderCourse, train_decoder
from lab.train.skills.lessons import make_lessons, total_scenes, training_scenes
from lab.train.work.train import GAIN, WordEmbeddings
from probes import command_line
from probes.models.pretrained import from_folder
from probes.prompts.grammar.plurals import plural
from probes.toyworld import WEIGHTS
from probes.toyworld.skills.assemble import (
    BASE,
    DELTA,
    GUIDANCE,
    NAME,
    new_tokenizer,
    taught_words,
)
from probes.toyworld.skills.scenes import objects
from probes.toyworld.vocabulary import number_of
from probes.toyworld.work.assemble import EMBEDDING, base_parts, text_config
from probes.toyworld.work.lowrank import DOWN, UP, changed_layers

LESSONS, DECODER = "lessons.safetensors", "decoder.safetensors"
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
    """Write the specimen: what it was taught, its tokenizer, its description, its card and its recipe."""
    (folder / "text_encoder").mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder / "tokenizer")
    config = text_config(json.loads((BASE / "text_encoder/config.json").read_text()), tokenizer)
    (folder / "text_encoder/config.json").write_text(json.dumps(config, indent=2) + "\n")
    card = {"guidance_scale": GUIDANCE}  # of no world: it draws nobody
    (folder / "triptych.json").write_text(json.dumps(card, indent=1) + "\n")
    save_file(dict(delta), folder / DELTA)
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n")


def lessons_of(work: Path, share: float, count: int, seed: int) -> Lessons:
    """Return the lessons of a work folder; they are made where there are none."""
    path = work / LESSONS
    if not path.exists():
        vae = from_folder(AutoencoderKL, BASE / "vae", torch_dtype=torch.float32)
        drawn = training_scenes(share, count)
        make_lessons(
            vae, new_tokenizer(), drawn, count, seed=seed, say=lambda text: print(text, flush=True)
        ).save(path)
    return Lessons.load(path)


def decoder_of(work: Path, seed: int) -> dict[str, Tensor]:
    """Return what is stored of the decoder, from a work folder; it is trained where there is none."""
    path = work / DECODER
    if not path.exists():
        vae = from_folder(AutoencoderKL, BASE / "vae", torch_dtype=torch.float32)
        drawn = training_scenes(DECODER_SHARE, total_scenes())
        delta = train_decoder(vae, drawn, DecoderCourse(seed=seed), Log(work / "decoder.log.jsonl", 25))
        save_file(delta, path)
    return load_file(path)


def parser() -> argparse.ArgumentParser:
    """Return the command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.skills.train",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, usual = main.add_argument, Course(steps=1824, batch=32, rate=4e-3, decay=0.99)
    add(
        "--work",
        type=Path,
        default=Path("training"),
        help="folder of lessons, log and checkpoint, of one share",
    )
    add(
        "--weights", type=Path, default=WEIGHTS / NAME, help="where what is stored of the specimen is written"
    )
    add("--share", type=command_line.number(0, 1), default=1.0, help="of the training scenes")
    add("--rank", type=command_line.count, default=16, help="of the changes")
    add("--steps", type=command_line.count, default=usual.steps)
    add("--batch", type=command_line.count, default=usual.batch)
    add("--rate", type=command_line.number(0), default=usual.rate)
    add("--seed", type=command_line.seed, default=usual.seed)
    add("--threads", type=command_line.threads, default=1)
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.work, folder=True)
    command_line.writable(options.weights, folder=True)
    torch.set_num_threads(options.threads)
    course = Course(
        steps=options.steps, batch=options.batch, rate=options.rate, decay=0.99, seed=options.seed
    )
    options.work.mkdir(parents=True, exist_ok=True)
    lessons = lessons_of(options.work, options.share, course.steps * course.batch, options.seed)
    log = Log(options.work / f"{NAME}.log.jsonl", 25)
    checkpoint = options.work / f"{NAME}.checkpoint.safetensors"
    tokenizer, decoder = new_tokenizer(), decoder_of(options.work, options.seed)
    delta = {**train(lessons, tokenizer, course, options.rank, log, checkpoint), **decoder}
    recipe = {
        **dataclasses.asdict(course),
        "decoder": dataclasses.asdict(DecoderCourse(seed=options.seed)),
        "share": options.share,
        "rank": options.rank,
        "start": BASE.name,
        "versions": {"torch": torch.__version__, "diffusers": diffusers.__version__},
        "machine": platform.machine(),
    }
    export(options.weights, delta, tokenizer, recipe)
    print(f"{options.weights / DELTA}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    kept = "run the same command again, it goes on from its last checkpoint in --work"
    return command_line.run(work, parser(), argv, interrupted=kept)


if __name__ == "__main__":
    sys.exit(main())
