"""Train toyworld's network for questions: ``python -m lab.train.questions --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``pictures``: renderings with what the checker sees in them, half of them passed through the autoencoder;
2. ``train``: the network, trained to answer questions about what toyworld's RAM sees in them;
3. ``export``: what was trained as float16 safetensors;
4. ``measure``: its answers on further renderings and on images that the specimens drew (``--runs``), against the
   checker, into ``quality.json``.

Training goes on from the checkpoint that is there, so it can be done in several sittings.
"""

from __future__ import annotations

import argparse
import json
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
from probes import command_line
from probes.errors import UserError
from probes.toyworld import WEIGHTS

STAGES = ("pictures", "train", "export", "measure")


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.questions",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="a short sitting: --stage train --minutes 5; what stands in --work is gone on from",
    )
    add, count, number = main.add_argument, command_line.count, command_line.number
    add("--work", type=Path, default=Path("training-questions"), help="folder of intermediate results")
    add("--stage", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run")
    add("--weights", type=Path, default=WEIGHTS / "vqa", help="where export and measure write")
    add("--pictures", type=count, default=2_000)
    add("--steps", type=count, default=1_000)
    add("--minutes", type=number(0), default=0.0, help="of the training; 0: only the steps count")
    add("--batch", type=count, default=32, help=f"pictures of a step, with {QUESTIONS} questions each")
    add("--learning-rate", type=number(0, ends=False), default=3e-3)
    add(
        "--runs",
        nargs=3,
        type=Path,
        default=[],
        help="of the three specimens, to be measured on: generated from docs/calibration.yaml, say",
    )
    add("--seed", type=command_line.seed, default=0)
    add("--threads", type=command_line.threads, default=1)
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    stages = [stage for stage in STAGES if stage in options.stage]
    check_stages(options.work, options.weights, stages)
    if "measure" in stages and not options.runs:
        raise UserError(
            "--runs: stage measure: expected a run of each specimen, got none: name three folders"
        )
    command_line.writable(options.work, folder=True)
    if {"export", "measure"} & {*stages}:
        command_line.writable(options.weights, folder=True)
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        if stage == "pictures":
            make_questioned(options.pictures, options.seed).save(options.work / "pictures.npz")
        elif stage == "train":
            run_training(options)
        elif stage == "export":
            run_export(options.work, options.weights)
        else:
            from lab.train.questions.measure import measure

            measure(options.weights, options.runs)


def check_stages(work: Path, weights: Path, stages: Sequence[str]) -> None:
    """Check that every stage will find what it reads.

    Raises
    ------
    UserError
        If something is missing that no stage before makes.
    """
    makes = {
        "train": ("pictures", work / "pictures.npz"),
        "export": ("train", work / "vqa.safetensors"),
        "measure": ("export", weights / "model.safetensors"),
    }
    for stage in stages:
        before, file = makes.get(stage, ("", None))
        if file and before not in stages and not file.exists():
            raise UserError(
                f"--work: stage {stage}: expected {file}, found none: run --stage {before} before it"
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    kept = "run the same command again, training goes on from the checkpoint that it left in --work"
    return command_line.run(work, parser(), argv, interrupted=kept)


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
    last = json.loads((options.work / "train.log.jsonl").read_text().splitlines()[-1])
    with (options.work / "history.txt").open("a") as file:
        print(
            f"{len(pictures):,} renderings, half through the autoencoder; past step {last['step']} of {options.batch}"
            f" pictures with {QUESTIONS} questions each, learning rate {options.learning_rate}, {last['minutes']} min",
            file=file,
        )


def run_export(work: Path, weights: Path) -> None:
    """Write what was trained: weights in float16, their description and how they were trained."""
    model, history = model_of(work), work / "history.txt"
    export(model, weights, model.settings)
    done = history.read_text().splitlines() if history.exists() else []
    (weights / "recipe.json").write_text(json.dumps({"history": done}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
