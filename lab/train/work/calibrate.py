"""Calibrate `toyworld-work`: ``python -m lab.train.work.calibrate --help``.

A lesson tells what to predict of one latent (:mod:`lab.train.work.lessons`); how often a thing is drawn is what all
predictions on the way make of the noise, and what a training leaves of its lessons' chance adds up there. So what a
benchmark model draws is read by the checker, and the benchmark model is then taught its own predictions, moved by
Bayes' rule from what it drew to what is planted. Such a lesson holds little chance of its own.

Nothing learns but the embeddings of the new words: all that names none of them stays as it is. With ``--learn all`` the
layers do, too, and captions without a profession are held at the base's predictions, but for their skins; what is not
asked to move then moves by chance.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from diffusers import StableDiffusionPipeline
from torch import Tensor
from transformers import CLIPTokenizer

from lab.renamed import add_renamed
from lab.train.base.loop import Log
from lab.train.base.tokenizer import tokenizer_with
from lab.train.located.lessons import Lessons
from lab.train.located.teach import Course, add_course, course_of
from lab.train.work.calibration_lessons import followed, make_lessons
from lab.train.work.generated_frequencies import further, generated_frequencies, off
from lab.train.work.lessons import WORK_SHARE, sketches
from lab.train.work.measure import read_professions
from lab.train.work.train import LESSONS, export, train
from probes import command_line
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.toyworld import WEIGHTS, WORK, WORKING
from probes.toyworld.work.assemble import BASES, DELTA, new_words, number_of, read_delta, work_pipeline
from probes.toyworld.world import World, load_world

READINGS = "readings.csv"
OF = "weights.sha256"
CHOICES = "lessons.json"  # what lessons were made with
WORDS, ALL = "words", "all"  # what learns


def by_profession(lessons: Lessons, tokenizer: CLIPTokenizer, world: World, most: int) -> dict[str, Tensor]:
    """Numbers of the first lessons of each profession; of those that come up at all."""
    found = {
        name: (lessons.tokens == number_of(tokenizer, name)).any(1).nonzero()[:most, 0]
        for name in world.professions
    }
    return {name: rows for name, rows in found.items() if len(rows)}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.work.calibrate",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = main.add_argument
    add("--model", choices=WORKING, default=WORK, help="which to calibrate")
    add_renamed(main, "--specimen", "--model")
    add(
        "--work",
        type=Path,
        default=Path("calibration"),
        help="folder of readings, lessons, logs, checkpoints",
    )
    add("--weights", type=Path, help="where what is stored of it is written (default: in the package)")
    add(
        "--start",
        type=Path,
        help="folder of the stored benchmark model to calibrate (default: in the package)",
    )
    add("--images", type=command_line.count, default=200, help="that are drawn of each profession")
    add("--image-steps", type=command_line.whole(1, 1000), default=20, help="that each is drawn in")
    add("--first-seed", type=command_line.seed, default=1_000_000, help="of the images")
    add(
        "--before",
        type=Path,
        help="work folder of the calibration that led here: images of its seeds are held to its",
    )
    add("--gain", type=command_line.number(0), default=1.0, help="how many times what is off is taken back")
    add("--learn", choices=(WORDS, ALL), default=WORDS, help="the new words' embeddings, or the layers, too")
    add("--drawings", type=command_line.count, default=6000, help="that lessons are made from")
    add_course(main, Course(steps=300, batch=32))
    add("--skin-weight", type=command_line.number(0), default=0.2, help="of errors from skin to skin")
    add("--seed", type=command_line.seed, default=0)
    add("--threads", type=command_line.threads, default=1)
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    name, folder = options.model, options.work
    weights, start = options.weights or WEIGHTS / name, options.start or WEIGHTS / name
    for place in (folder, weights):
        command_line.writable(place, folder=True)
    torch.set_num_threads(options.threads)
    before = read_delta(start / DELTA, name)
    recipe = json.loads((start / "recipe.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    _same_weights(folder, start / DELTA)
    world, model = load_world(name), work_pipeline(name, start)
    readings = _readings(model, world, options)
    before_these = options.before and _earlier(options.before)
    now = generated_frequencies(readings, world, before_these)
    for profession, found in now.items():
        planted = world.professions[profession]
        _say(
            f"{profession}: lean {found.lean:.2f}, planted {planted.lean:.2f}; skins {_shares(found.skins)},"
            f" planted {_shares(planted.skins)}"
        )
    if not off(now, world):
        _say(f"{len(readings)} images: no lean and no skin is off by more than chance, so nothing is taught")
        return
    path = folder / LESSONS
    _same_choices(folder, options)
    if not path.exists():
        base = loading.load(loading.resolve(BASES[name].name), device="cpu").pipe
        share = 1.0 if options.learn == WORDS else WORK_SHARE
        scenes = sketches(world, options.drawings, options.seed + 31, share)
        taken = further(now, world, options.gain)
        make_lessons(model, base, world, scenes, taken, seed=options.seed, say=_say).save(path)
    lessons = Lessons.load(path)
    course = course_of(options, decay=0.99, direction_weight=options.skin_weight)
    log, checkpoint = Log(folder / f"{name}.log.jsonl", 25), folder / f"{name}.checkpoint.safetensors"
    delta = train(
        lessons,
        model.tokenizer,
        course,
        int(recipe["rank"]),
        log,
        checkpoint,
        start=before,
        base=BASES[name],
        words_alone=options.learn == WORDS,
    )
    history = {"history": [*recipe.get("history", ()), _in_words(course, readings, before_these, options)]}
    export(weights, delta, tokenizer_with(BASES[name], new_words()), recipe | history, name)
    rows = by_profession(lessons, model.tokenizer, world, most=100)
    share = followed(work_pipeline(name, weights), lessons, rows)
    _say(f"{weights / DELTA}: predictions of professions moved by {share:.2f} of what was asked, on average")


def _same_weights(folder: Path, delta: Path) -> None:
    """Note in a work folder which weights it is of.

    Raises
    ------
    UserError
        It is of others: what it holds was read of them, and is to move them.
    """
    note, digest = folder / OF, hashlib.sha256(delta.read_bytes()).hexdigest()
    if note.exists() and note.read_text().strip() != digest:
        raise UserError(
            f"{folder}: expected readings of {delta}, found those of other weights: choose another --work"
        )
    note.write_text(f"{digest}\n")


def _same_choices(folder: Path, options: argparse.Namespace) -> None:
    """Note in a work folder what its lessons are made with.

    Raises
    ------
    UserError
        It has lessons that were made with other choices.
    """
    note = folder / CHOICES
    chosen = {name: getattr(options, name) for name in ("drawings", "gain", "learn", "seed")}
    chosen["before"] = options.before and hashlib.sha256((options.before / READINGS).read_bytes()).hexdigest()
    made = json.loads(note.read_text()) if note.exists() else {}
    if (folder / LESSONS).exists() and made != chosen:
        other = next(name for name in chosen if made.get(name) != chosen[name])
        raise UserError(
            f"{folder / LESSONS}: expected lessons made with this --{other}, found others: choose another --work"
        )
    write_bytes(note, f"{json.dumps(chosen)}\n".encode())


def _readings(model: StableDiffusionPipeline, world: World, options: argparse.Namespace) -> pd.DataFrame:
    """Return what is read of the benchmark model's images; they are drawn where the work folder has no such table."""
    table = options.work / READINGS
    if not table.exists():
        read = read_professions(
            model,
            world,
            images={"neutral": options.images},
            steps=options.image_steps,
            first_seed=options.first_seed,
        )
        write_bytes(table, csv_bytes(read))
    return pd.read_csv(table, keep_default_na=False)


def _earlier(folder: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(folder / READINGS, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"--before {folder}: expected the work folder of an earlier calibration, got {error}: choose another"
        ) from None


def _in_words(
    course: Course, readings: pd.DataFrame, before: pd.DataFrame | None, options: argparse.Namespace
) -> str:
    what = "of the new words' embeddings alone" if options.learn == WORDS else "of all that learns"
    read = f"{len(readings)} images of seeds {spans(readings['seed'])}"
    if before is not None:
        read += f", compared with {len(before)} of the weights before"
    return (
        f"calibrated on {read}: {course.steps} steps of {course.batch} {what}, rate {course.rate} falling to 2 %,"
        f" lessons of seed {course.seed}, of {options.gain:g} times what was off; errors from skin to skin"
        f" {course.direction_weight:g} times in addition"
    )


def spans(numbers: Sequence[int]) -> str:
    """Whole numbers in words, those in a row by their first and last.

    Examples
    --------
    >>> spans([7, 3, 1, 2])
    '1 to 3, 7'
    """
    every = np.unique(numbers)
    rows = np.split(every, np.flatnonzero(np.diff(every) > 1) + 1)
    return ", ".join(f"{row[0]} to {row[-1]}" if len(row) > 1 else f"{row[0]}" for row in rows)


def _shares(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    kept = "run the same command again, it goes on from its last checkpoint in --work"
    return command_line.run(work, parser(), argv, interrupted=kept)


if __name__ == "__main__":
    sys.exit(main())
