"""Train toyworld's networks for features: ``python -m lab.train.features --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``pictures``: renderings with what the checker sees in them, half of them passed through the autoencoder;
2. ``resnet50``: the small ResNet, trained to say what the checker sees;
3. ``dino``: the small DINO, trained without labels, whose class token serves DINO and whose patches split-product;
4. ``clip``: the CLIP that is there (``--clip``), trained further on sentences about what a figure wears;
5. ``export``: what was trained as float16 safetensors, in timm's and open_clip's layout;
6. ``measure``: how well the features tell what is in further renderings, into ``quality.json``.

A stage goes on from the checkpoint that is there, so a training can be done in several sittings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from transformers import CLIPTokenizer

from analysis.observe.checkpoints import fit, read_weights
from lab.train.base.clip import new_clip, save_clip
from lab.train.base.loop import Budget, Log
from lab.train.detectors.pictures import LabelledPictures, make_labelled
from lab.train.detectors.weights import save_weights
from lab.train.features import clip, dino, resnet
from lab.train.stages import RESUMES, Stage, Trainer, add_history, last_logged, write_json, write_recipe
from probes import command_line
from probes.models.pretrained import from_folder
from probes.toyworld import WEIGHTS

TRAINED = ("resnet50", "dino", "clip")
STEPS = {"resnet50": 600, "dino": 900, "clip": 1000}


def add_options(main: argparse.ArgumentParser) -> None:
    """Add the options of this training."""
    add, count, number = main.add_argument, command_line.count, command_line.number
    add(
        "--clip",
        type=Path,
        default=WEIGHTS / "clip",
        help="CLIP's folder: training starts from it, export writes to it",
    )
    add("--pictures", type=count, default=4_000)
    add("--steps", type=count, help=f"of a training; as a rule {STEPS}")
    add("--minutes", type=number(0), default=0.0, help="of a training; 0: only the steps count")
    add("--batch", type=count, default=64)
    add(
        "--learning-rate",
        type=number(0, closed=False),
        help="as a rule 3e-3 for the ResNet, 2e-3 for the DINO, 1e-3 for the CLIP",
    )


def run_pictures(options: argparse.Namespace) -> None:
    """Draw renderings with what the checker sees in them."""
    make_labelled(options.pictures, options.seed).save(options.work / "pictures.npz")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


def model_of(name: str, work: Path, clip_folder: Path) -> torch.nn.Module:
    """A network with the weights that stand in the work folder.

    Where there are none they are freshly drawn, and CLIP's are those of its folder.
    """
    checkpoint = _checkpoint(work, name)
    if name == "clip":
        model = new_clip(len(tokenizer_of(clip_folder)))
        checkpoint = checkpoint if checkpoint.exists() else clip_folder / "open_clip_model.safetensors"
    else:
        model = resnet.new_resnet() if name == "resnet50" else dino.new_dino()
    if checkpoint.exists():
        fit(model, read_weights(checkpoint, "--work"), path=checkpoint, field="--work", what=name)
    return model


def tokenizer_of(clip_folder: Path) -> CLIPTokenizer:
    """CLIP's tokenizer."""
    return from_folder(CLIPTokenizer, clip_folder)


def run_training(name: str, options: argparse.Namespace) -> None:
    """Train one of the networks."""
    torch.manual_seed(options.seed)
    model, checkpoint = model_of(name, options.work, options.clip), _checkpoint(options.work, name)
    pictures = LabelledPictures.load(options.work / "pictures.npz")
    budget = Budget(options.steps or STEPS[name], options.minutes, warmup=30)
    log = Log(options.work / f"{name}.log.jsonl", every=25)
    more = {"batch_size": options.batch, "seed": options.seed}
    more |= {"learning_rate": options.learning_rate} if options.learning_rate else {}
    if name == "resnet50":
        resnet.train_resnet(
            model, pictures, budget, log, save=lambda: save_weights(model, checkpoint), **more
        )
    elif name == "clip":
        tokenizer = tokenizer_of(options.clip)
        clip.train_clip(
            model, tokenizer, pictures, budget, log, save=lambda: save_weights(model, checkpoint), **more
        )
    else:
        model = dino.train_dino(
            model, pictures, budget, log, save=lambda teacher: save_weights(teacher, checkpoint), **more
        )
    save_weights(model, checkpoint)
    last = last_logged(options.work / f"{name}.log.jsonl")
    add_history(
        _history(name, options.work),
        f"{len(pictures):,} renderings, half through the autoencoder; past step {last['step']} of batches of"
        f" {options.batch}, {last['minutes']} min",
    )


def run_export(options: argparse.Namespace) -> None:
    """Write what was trained to the weights folders, in the layout of timm's hub models and of open_clip's."""
    work, weights, clip_folder = options.work, options.weights, options.clip
    for name in TRAINED:
        if not _checkpoint(work, name).exists():
            continue
        model, folder = model_of(name, work, clip_folder), weights / name
        done = _history(name, work).read_text().splitlines()
        if name == "clip":
            save_clip(model, tokenizer_of(clip_folder), clip_folder)
            folder, recipe = clip_folder, clip_folder / "recipe.json"
            before = json.loads(recipe.read_text())["history"] if recipe.exists() else []
            done = list(dict.fromkeys([*before, *done]))  # what it started from was trained, too
        else:
            described = resnet if name == "resnet50" else dino
            export(model, folder, described.ARCHITECTURE, described.ARGUMENTS)
        write_recipe(folder, {"history": done})


def run_measure(options: argparse.Namespace) -> None:
    """Measure the features of the weights that were exported."""
    from lab.train.features.measure import measure

    measure(options.weights)


def export(model: torch.nn.Module, folder: Path, architecture: str, arguments: dict) -> None:
    """Write ``model.safetensors`` in float16 and ``config.json``, from which timm makes and fills the network."""
    save_weights(model, folder / "model.safetensors", torch.float16)
    config = {
        "architecture": architecture,
        "num_classes": arguments["num_classes"],
        "model_args": {name: value for name, value in arguments.items() if name != "num_classes"},
        "pretrained_cfg": {
            "input_size": [3, 64, 64],
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "mean": [0.5] * 3,
            "std": [0.5] * 3,
            "num_classes": arguments["num_classes"],
        },
    }
    write_json(folder / "config.json", config)


def _checkpoint(work: Path, name: str) -> Path:
    return work / f"{name}.safetensors"


def _history(name: str, work: Path) -> Path:
    """Return what was done so far, a line a sitting."""
    return work / f"{name}.history.txt"


def _network(name: str) -> Stage:
    """The stage that trains a network."""
    return Stage(
        name,
        partial(run_training, name),
        reads=lambda options: [options.work / "pictures.npz"],
        makes=lambda options: [_checkpoint(options.work, name)],
    )


TRAINER = Trainer(
    "lab.train.features",
    __doc__,
    stages=(
        Stage("pictures", run_pictures, makes=lambda options: [options.work / "pictures.npz"]),
        *map(_network, TRAINED),
        Stage(
            "export",
            run_export,
            reads=lambda options: [tuple(_checkpoint(options.work, name) for name in TRAINED)],
            exports=True,
        ),
        Stage("measure", run_measure, exports=True),
    ),
    add_options=add_options,
    work="training-features",
    weights=WEIGHTS / "features",
    weights_help="where export and measure write",
    outputs=lambda options: [options.weights, options.clip],
    epilog="a short sitting: --stage dino --minutes 5; what stands in --work is gone on from",
)


if __name__ == "__main__":
    sys.exit(main())
