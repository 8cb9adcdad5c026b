"""Train toyworld's network for questions: ``python -m lab.train.questions --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``pictures``: renderings with what the checker sees in them, half of them passed through the autoencoder;
2. ``train``: the network, trained to answer questions about what toyworld's RAM sees in them;
3. ``export``: what was trained as float16 safetensors;
4. ``measure``: its answers on further renderings and on images that the benchmark models drew (``--runs``), against the
   checker, into ``quality.json``.

Training goes on from the checkpoint that is there, so it can be done in several sittings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from analysis.observe.checkpoints import fit, read_weights
from analysis.observe.questions.toyworld_network import AnswerNetwork
from analysis.observe.questions.toyworld_vqa import toyworld_tokenizer
from lab.train.base.loop import Budget, Log
from lab.train.detectors.weights import export, save_weights
from lab.train.questions.pictures import QuestionedPictures, make_questioned
from lab.train.questions.train import QUESTIONS, train
from lab.train.stages import RESUMES, Stage, Trainer, add_history, last_logged, write_recipe
from probes import command_line
from probes.errors import UserError
from probes.toyworld import WEIGHTS


def add_options(main: argparse.ArgumentParser) -> None:
    """Add the options of this training."""
    add, count, number = main.add_argument, command_line.count, command_line.number
    add("--pictures", type=count, default=2_000)
    add("--steps", type=count, default=1_000)
    add("--minutes", type=number(0), default=0.0, help="of the training; 0: only the steps count")
    add("--batch", type=count, default=32, help=f"pictures of a step, with {QUESTIONS} questions each")
    add("--learning-rate", type=number(0, closed=False), default=3e-3)
    add(
        "--runs",
        nargs=3,
        type=Path,
        default=[],
        help="of the three benchmark models, to be measured on: generated from docs/validation/calibration.yaml, say",
    )


def run_pictures(options: argparse.Namespace) -> None:
    """Draw renderings with what the checker sees in them."""
    make_questioned(options.pictures, options.seed).save(options.work / "pictures.npz")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


def model_of(work: Path) -> AnswerNetwork:
    """The network with the weights that stand in the work folder; freshly drawn ones where there are none."""
    model, checkpoint = AnswerNetwork(), work / "vqa.safetensors"
    if checkpoint.exists():
        fit(model, read_weights(checkpoint, "--work"), path=checkpoint, field="--work", what="the network")
    return model


def run_training(options: argparse.Namespace) -> None:
    """Train the network, and say in ``history.txt`` how far."""
    torch.manual_seed(options.seed)
    model, checkpoint = model_of(options.work), options.work / "vqa.safetensors"
    pictures = QuestionedPictures.load(options.work / "pictures.npz")
    log = Log(options.work / "train.log.jsonl", every=25)
    train(
        model,
        toyworld_tokenizer(),
        pictures,
        Budget(options.steps, options.minutes, warmup=50),
        log,
        batch_size=options.batch,
        learning_rate=options.learning_rate,
        seed=options.seed,
        save=lambda: save_weights(model, checkpoint),
    )
    save_weights(model, checkpoint)
    last = last_logged(options.work / "train.log.jsonl")
    add_history(
        options.work / "history.txt",
        f"{len(pictures):,} renderings, half through the autoencoder; past step {last['step']} of {options.batch}"
        f" pictures with {QUESTIONS} questions each, learning rate {options.learning_rate}, {last['minutes']} min",
    )


def run_export(options: argparse.Namespace) -> None:
    """Write what was trained: weights in float16, their description and how they were trained."""
    model, history = model_of(options.work), options.work / "history.txt"
    export(model, options.weights, model.settings)
    write_recipe(options.weights, {"history": history.read_text().splitlines() if history.exists() else []})


def check_runs(options: argparse.Namespace) -> None:
    """Check that there are images to measure on."""
    if not options.runs:
        raise UserError("--runs: stage measure: expected a run of each model, got none: name three folders")


def run_measure(options: argparse.Namespace) -> None:
    """Measure the answers of the weights that were exported."""
    from lab.train.questions.measure import measure

    measure(options.weights, options.runs)


TRAINER = Trainer(
    "lab.train.questions",
    __doc__,
    stages=(
        Stage("pictures", run_pictures, makes=lambda options: [options.work / "pictures.npz"]),
        Stage(
            "train",
            run_training,
            reads=lambda options: [options.work / "pictures.npz"],
            makes=lambda options: [options.work / "vqa.safetensors"],
        ),
        Stage(
            "export",
            run_export,
            reads=lambda options: [options.work / "vqa.safetensors"],
            makes=lambda options: [options.weights / "model.safetensors"],
            exports=True,
        ),
        Stage(
            "measure",
            run_measure,
            reads=lambda options: [options.weights / "model.safetensors"],
            check=check_runs,
            exports=True,
        ),
    ),
    add_options=add_options,
    work="training-questions",
    weights=WEIGHTS / "vqa",
    weights_help="where export and measure write",
    epilog="a short sitting: --stage train --minutes 5; what stands in --work is gone on from",
)


if __name__ == "__main__":
    sys.exit(main())
