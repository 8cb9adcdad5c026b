"""Train the located specimens: ``python -m lab.train.located.train --help``.

Each is taught what `toyworld` predicts (:mod:`lab.train.located.lessons`), from the coded null or
from another specimen whose wire lies in the same layer (`STARTS`). What is stored of a specimen are the weights of its
wires, float16, and its recipe. A run that was stopped goes on when it is started again.
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
from diffusers import StableDiffusionPipeline
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.train.base.loop import Log
from lab.train.located.lessons import WORLD, Lessons, make_lessons
from lab.train.located.teach import Course, teach_embedding, teach_wire
from probes import command_line
from probes.errors import UserError
from probes.toyworld import LOCATED, WEIGHTS
from probes.toyworld.located import coded
from probes.toyworld.located.assemble import (
    BASE,
    DELTA,
    EMBEDDING,
    coded_parts,
    embedded_words,
    same_words,
    word_numbers,
)
from probes.toyworld.located.truth import Specimen, specimens

# What starts from another specimen has that layer's weights already, and learns behind its gate or in its head.
STARTS = {
    "toyworld-head": "toyworld-cross-4",
    "toyworld-early": "toyworld-cross-4",
    "toyworld-late": "toyworld-cross-4",
}
LESSONS = "lessons.safetensors"


def export_null(weights: Path) -> None:
    """Write the descriptions and cards of the specimens of which no weights are stored."""
    folder = weights / LOCATED[0]
    for file, make in (
        ("text_encoder/config.json", coded.text_config),
        ("unet/config.json", coded.unet_config),
    ):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        described = make(json.loads((BASE / file).read_text()))
        (folder / file).write_text(json.dumps(described, indent=2) + "\n")
    for name, specimen in specimens().items():
        if not specimen.taught:
            write_card(weights / name, specimen)


def write_card(folder: Path, specimen: Specimen) -> None:
    """Write what a model was made for (``triptych.json``)."""
    folder.mkdir(parents=True, exist_ok=True)
    card = {"guidance_scale": 1.0, "world": specimen.world}
    (folder / "triptych.json").write_text(json.dumps(card, indent=1) + "\n")


def lessons_of(work: Path, drawings: int) -> Lessons:
    """The lessons of a work folder; they are made where there are none."""
    path = work / LESSONS
    if not path.exists():
        folders = (WEIGHTS / WORLD, BASE)
        pipes = [_pipeline(folder) for folder in folders]
        make_lessons(pipes, drawings).save(path)
    lessons = Lessons.load(path)
    if len(lessons) != 2 * drawings:
        raise UserError(
            f"--drawings: {path}: expected lessons from {drawings} drawings, found {len(lessons) // 2}: "
            "name another --work, or as many drawings"
        )
    return lessons


def _pipeline(folder: Path) -> StableDiffusionPipeline:
    from lab.train.base.measure import specimen_pipeline

    return specimen_pipeline(folder)[0]


def taught(
    specimen: Specimen, lessons: Lessons, course: Course, start: Mapping[str, Tensor], work: Path
) -> dict[str, Tensor]:
    """Train a specimen; return what is to be stored of it, float32.

    Parameters
    ----------
    start : mapping of str to Tensor
        Weights of the U-Net to begin with, where they are not those of the coded null.
    """
    result: dict[str, Tensor] = {}
    if not specimen.wires:
        encoder, unet, tokenizer = coded_parts()
        numbers = word_numbers(tokenizer)
        rows = {word: [numbers[other] for other in same_words(word)] for word in embedded_words()}
        log, checkpoint = _files(work, specimen.name)
        learnt = teach_embedding(unet, encoder, rows, lessons, course, log, checkpoint)
        return {f"{EMBEDDING}.{word}": value for word, value in learnt.items()}
    for wire in specimen.wires:
        encoder, unet, _ = coded_parts()
        for name, value in start.items():
            with torch.no_grad():
                unet.get_parameter(name).copy_(value.float())
        log, checkpoint = _files(
            work, specimen.name if len(specimen.wires) < 2 else f"{specimen.name}-{wire.shows}"
        )
        result |= teach_wire(unet, encoder, wire, lessons, course, log, checkpoint)
    return result


def _files(work: Path, name: str) -> tuple[Log, Path]:
    return Log(work / f"{name}.log.jsonl", 25), work / f"{name}.checkpoint.safetensors"


def export(
    folder: Path, specimen: Specimen, state: Mapping[str, Tensor], recipe: Mapping[str, object]
) -> None:
    """Write what is stored of a specimen: its weights in float16, its card and how it was taught."""
    write_card(folder, specimen)
    save_file({name: value.half().contiguous() for name, value in state.items()}, folder / DELTA)
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n")


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.located.train",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="without a GPU 500 steps of 16 take about four minutes on one core",
    )
    add, usual = main.add_argument, Course()
    names = [name for name, specimen in specimens().items() if specimen.taught]
    add(
        "specimen",
        nargs="+",
        choices=[*names, LOCATED[0]],
        help=f"{LOCATED[0]}: its description alone, and the decoy's",
    )
    add("--work", type=Path, default=Path("training"), help="folder of lessons, logs and checkpoints")
    add(
        "--weights",
        type=Path,
        default=WEIGHTS / "located",
        help="where what is stored of a specimen is written",
    )
    add("--drawings", type=command_line.count, default=5000, help="that lessons are made from, two of each")
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
    course = Course(steps=options.steps, batch=options.batch, rate=options.rate, seed=options.seed)
    asked = [specimens()[name] for name in options.specimen]
    if any(not specimen.taught for specimen in asked):
        export_null(options.weights)
    starts = {one.name: _start(options.weights, one, options.specimen) for one in asked if one.taught}
    options.work.mkdir(parents=True, exist_ok=True)
    for name, start in starts.items():
        specimen, lessons = specimens()[name], lessons_of(options.work, options.drawings)
        state = load_file(start) if start else {}
        recipe = {
            **dataclasses.asdict(course),
            "drawings": options.drawings,
            "start": STARTS.get(name, LOCATED[0]),
            "versions": {"torch": torch.__version__, "diffusers": diffusers.__version__},
            "machine": platform.machine(),
        }
        export(
            options.weights / name, specimen, taught(specimen, lessons, course, state, options.work), recipe
        )
        print(f"{options.weights / name / DELTA}", flush=True)


def _start(weights: Path, specimen: Specimen, asked: Sequence[str]) -> Path | None:
    """The file with the weights that a specimen starts from, if these are not the coded null's."""
    name = STARTS.get(specimen.name)
    path = weights / f"{name}" / DELTA
    before = asked[: asked.index(specimen.name)]
    if name and name not in before and not path.exists():
        raise UserError(f"--weights: {specimen.name} starts from {path}, found none: name {name} before it")
    return path if name else None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    kept = "run the same command again, a specimen goes on from its last checkpoint in --work"
    return command_line.run(work, parser(), argv, interrupted=kept)


if __name__ == "__main__":
    sys.exit(main())
