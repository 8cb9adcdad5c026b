"""Train the located benchmark models: ``python -m lab.train.located.train --help``.

Each is taught what `toyworld` predicts (:mod:`lab.train.located.lessons`), from the coded null. What is stored of a
benchmark model are the weights of its wire, float16, and its recipe. Stages: ``lessons``, ``train``; a run that was
stopped goes on when it is started again.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from diffusers import StableDiffusionPipeline
from safetensors.torch import save_file
from torch import Tensor

from lab.train.base.loop import Log
from lab.train.located.lessons import WORLD, Lessons, make_lessons
from lab.train.located.teach import Course, add_course, course_of, teach_wire
from lab.train.stages import RESUMES, Stage, Trainer, made_with, write_json, write_recipe
from probes import command_line
from probes.errors import UserError
from probes.toyworld import WEIGHTS
from probes.toyworld.coded import CHANNELS, OLD
from probes.toyworld.pipelines import DELTA, NULL, load_coded_networks
from probes.toyworld.places import KnownPlaces, known_places

LESSONS = "lessons.safetensors"
CODED = "toyworld-coded-null"


def export_null(weights: Path) -> None:
    """Write the descriptions and the card of the coded null, of which no weights are stored."""
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
        write_json(weights / CODED / part / "config.json", config, indent=2)
    write_card(weights / CODED, known_places("located")[CODED])


def write_card(folder: Path, model: KnownPlaces) -> None:
    """Write what a model was made for (``triptych.json``)."""
    write_json(folder / "triptych.json", {"guidance_scale": 1.0, "world": model.world})


def run_lessons(options: argparse.Namespace) -> None:
    """Make the lessons where there are none and some model is taught."""
    path, drawings = options.work / LESSONS, options.drawings
    if not any(known_places("located")[name].sites for name in options.model):
        return
    if not path.exists():
        make_lessons(_pipeline(WEIGHTS / WORLD), drawings).save(path)
    found = len(Lessons.load(path))
    if found != 2 * drawings:
        raise UserError(
            f"--drawings: {path}: expected lessons from {drawings} drawings, found {found // 2}: "
            "name another --work, or as many drawings"
        )


def _pipeline(folder: Path) -> StableDiffusionPipeline:
    from lab.train.base.measure import benchmark_pipeline

    return benchmark_pipeline(folder)[0]


def taught(model: KnownPlaces, lessons: Lessons, course: Course, work: Path) -> dict[str, Tensor]:
    """Train a benchmark model; return what is to be stored of it, float32."""
    result: dict[str, Tensor] = {}
    for block in (place.block for place in model.places):
        encoder, unet, _ = load_coded_networks()
        log = Log(work / f"{model.name}.log.jsonl", 25)
        checkpoint = work / f"{model.name}.checkpoint.pt"
        result |= teach_wire(unet, encoder, block, lessons, course, log, checkpoint)
    return result


def export(
    folder: Path, model: KnownPlaces, state: Mapping[str, Tensor], recipe: Mapping[str, object]
) -> None:
    """Write what is stored of a benchmark model: its weights in float16, its card and how it was taught."""
    write_card(folder, model)
    save_file({name: value.half().contiguous() for name, value in state.items()}, folder / DELTA)
    write_recipe(folder, recipe)


def run_train(options: argparse.Namespace) -> None:
    """Train each model that was asked for, and write what is stored of it."""
    if any(not known_places("located")[name].sites for name in options.model):
        export_null(options.weights)
    course, asked = course_of(options), options.model
    for name, model in ((name, known_places("located")[name]) for name in asked):
        if model.sites:
            recipe = {
                **dataclasses.asdict(course),
                "drawings": options.drawings,
                "start": CODED,
                **made_with(),
            }
            lessons = Lessons.load(options.work / LESSONS)
            delta = taught(model, lessons, course, options.work)
            export(options.weights / name, model, delta, recipe)
            print(f"{options.weights / name / DELTA}", flush=True)


def _before_training(options: argparse.Namespace) -> list[Path]:
    return (
        [options.work / LESSONS] if any(known_places("located")[name].sites for name in options.model) else []
    )


def add_options(main: argparse.ArgumentParser) -> None:
    """Add the options of this training."""
    names = [name for name, model in known_places("located").items() if model.sites]
    main.add_argument(
        "model",
        nargs="+",
        choices=[*names, CODED],
        help=f"{CODED}: its description alone",
    )
    main.add_argument(
        "--drawings", type=command_line.count, default=5000, help="that lessons are made from, two of each"
    )
    add_course(main, Course())


TRAINER = Trainer(
    "lab.train.located.train",
    __doc__,
    stages=(
        Stage("lessons", run_lessons, makes=lambda options: [options.work / LESSONS]),
        Stage("train", run_train, reads=_before_training, exports=True),
    ),
    add_options=add_options,
    weights=WEIGHTS / "located",
    weights_help="where what is stored of a model is written",
    epilog="without a GPU 500 steps of 16 take about four minutes on one core",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


if __name__ == "__main__":
    sys.exit(main())
