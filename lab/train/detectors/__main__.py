"""Train toyworld's detectors: ``python -m lab.train.detectors --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``pictures``: renderings with known boxes, labels and masks, half of them passed through the autoencoder; 2.
``sam``: the small Segment Anything, prompted by boxes; 3. ``dino``: the small Grounding DINO; 4. ``tagged``:
renderings and images drawn by the benchmark models, with what the checker sees in them; ``--runs`` takes those
   of runs as well, and holds back a fifth of their prompts for the tagger's thresholds, ``--rare`` some that name
   every tag;
5. ``ram``: the small RAM, which tags images; with ``--whole`` its image encoder is trained too;
6. ``export``: what was trained as float16 safetensors, with its settings beside it.

A stage goes on from the checkpoint that is there, so a training can be done in several sittings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from analysis.observe.checkpoints import fit, read_weights
from analysis.observe.objects.models import segment_anything
from lab.train.base.loop import Budget, Log
from lab.train.detectors import dino, sam, tagged_images, tagger
from lab.train.detectors.dino_training import train_dino
from lab.train.detectors.pictures import PictureSet, make_pictures
from lab.train.detectors.weights import export, save_weights
from lab.train.stages import RESUMES, Stage, Trainer, add_history, last_logged, write_recipe
from probes import command_line
from probes.toyworld import WEIGHTS

STEPS = {"sam": 3_000, "dino": 12_000, "ram": 4_000}
FOLDERS = {"sam": "sam", "dino": "grounding-dino", "ram": "ram"}
HELD_BACK = "held-back.npz"
READS = {"sam": "pictures", "dino": "pictures", "ram": "tagged"}
CALIBRATION = 90_001  # seed of renderings that say the tagger's thresholds


def add_options(main: argparse.ArgumentParser) -> None:
    """Add the options of this training."""
    add, count, number = main.add_argument, command_line.count, command_line.number
    add("--pictures", type=count, default=20_000)
    add("--drawn", type=command_line.whole_number(0), default=240, help="images by each model, for ram")
    add(
        "--runs",
        nargs="+",
        type=command_line.existing_folder,
        default=[],
        help="runs of toyworld's models, for ram",
    )
    add("--words", type=count, default=4, help="random images of each triplet of a run")
    add(
        "--rare",
        type=command_line.whole_number(0),
        default=0,
        help="further images by each model, whose captions name every tag so many times; a fifth is held back",
    )
    add("--whole", action="store_true", help="train ram's image encoder as well")
    add("--calibration", type=count, default=1_000, help="fresh renderings, for ram's thresholds")
    add("--steps", type=count, help=f"of a training; as a rule {STEPS}")
    add("--minutes", type=number(0), default=0.0, help="0: only the steps count")
    add("--batch", type=count, default=16)
    add(
        "--learning-rate",
        type=number(0, closed=False),
        help="as a rule 1e-3 for sam, 5e-4 for dino, 2e-3 for ram, 5e-4 for the whole of it",
    )
    add("--head-start", type=command_line.whole_number(0), default=500, help="steps of dino's dense loss")


def run_pictures(options: argparse.Namespace) -> None:
    """Draw renderings for the two detectors."""
    make_pictures(options.pictures, options.seed).save(options.work / "pictures.npz")


def run_tagged(options: argparse.Namespace) -> None:
    """Draw images for the tagger."""
    train, held_out = tagged_images.make_tagged_images(
        options.pictures,
        options.drawn,
        options.seed,
        runs=options.runs,
        words=options.words,
        rare=options.rare,
    )
    train.save(options.work / "tagged.npz")
    held_out.save(options.work / HELD_BACK)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=RESUMES)


def model_of(name: str, work: Path) -> torch.nn.Module:
    """A detector or the tagger, with the weights in the work folder, freshly drawn where there are none."""
    made = {
        "sam": lambda: segment_anything.build(sam.SETTINGS),
        "dino": lambda: dino.new_dino(work),
        "ram": tagger.new_tagger,
    }
    model = made[name]()
    checkpoint = work / f"{name}.safetensors"
    if checkpoint.exists():
        fit(model, read_weights(checkpoint, "--work"), path=checkpoint, field="--work", what=FOLDERS[name])
    return model


def run_training(name: str, options: argparse.Namespace) -> None:
    """Train one of them."""
    torch.manual_seed(options.seed)
    model, checkpoint = model_of(name, options.work), options.work / f"{name}.safetensors"
    more = {"learning_rate": options.learning_rate} if options.learning_rate else {}
    if name == "dino":
        more["head_start"] = options.head_start
    if name == "ram":
        more["whole"] = options.whole
    train = {"sam": sam.train_sam, "dino": train_dino, "ram": tagger.train_tagger}[name]
    kind = tagged_images.TaggedImages if name == "ram" else PictureSet
    train(
        model,
        kind.load(options.work / f"{READS[name]}.npz"),
        Budget(options.steps or STEPS[name], options.minutes),
        Log(options.work / f"{name}.log.jsonl"),
        batch_size=options.batch,
        seed=options.seed,
        checkpoint=checkpoint,
        **more,
    )
    save_weights(model, checkpoint)
    rate = f", learning rate {options.learning_rate:g}" if options.learning_rate else ""
    rate += ", with the image encoder" if options.whole and name == "ram" else ""
    last = last_logged(options.work / f"{name}.log.jsonl")
    sitting = f"past step {last['step']} of batches of {options.batch}{rate}, {last['minutes']} min"
    add_history(_history(name, options.work), sitting)


def run_export(options: argparse.Namespace) -> None:
    """Write what was trained to the weights folder."""
    for name, folder in FOLDERS.items():
        if (options.work / f"{name}.safetensors").exists():
            model, there = model_of(name, options.work).eval(), options.weights / folder
            if name == "ram":
                tagger.export_tagger(model, there, tagger.thresholds(model, calibration(options)))
            else:
                export(model, there, sam.SETTINGS if name == "sam" else dino.SETTINGS)
            write_recipe(there, {"history": _history(name, options.work).read_text().splitlines()})
            if name == "dino":
                dino.save_text_encoder(there / dino.SETTINGS["text_encoder"])


def calibration(options: argparse.Namespace) -> tagged_images.TaggedImages:
    """Return what the tagger's thresholds are from: fresh renderings, and images of runs that were held back."""
    fresh = tagged_images.TaggedImages.of(tagged_images.renderings(options.calibration, CALIBRATION))
    held_out = options.work / HELD_BACK
    return (
        tagged_images.TaggedImages.together([fresh, tagged_images.TaggedImages.load(held_out)])
        if held_out.exists()
        else fresh
    )


def _history(name: str, work: Path) -> Path:
    """Return what was done so far, a line a sitting."""
    return work / f"{name}.history.txt"


def _network(name: str) -> Stage:
    """The stage that trains a network."""
    return Stage(
        name,
        partial(run_training, name),
        reads=lambda options: [options.work / f"{READS[name]}.npz"],
        makes=lambda options: [options.work / f"{name}.safetensors"],
    )


TRAINER = Trainer(
    "lab.train.detectors",
    __doc__,
    stages=(
        Stage("pictures", run_pictures, makes=lambda options: [options.work / "pictures.npz"]),
        _network("sam"),
        _network("dino"),
        Stage("tagged", run_tagged, makes=lambda options: [options.work / "tagged.npz"]),
        _network("ram"),
        Stage(
            "export",
            run_export,
            reads=lambda options: [tuple(options.work / f"{name}.safetensors" for name in FOLDERS)],
            exports=True,
        ),
    ),
    add_options=add_options,
    weights=WEIGHTS,
    epilog="a short sitting: --stage sam --steps 500; what stands in --work is gone on from",
)


if __name__ == "__main__":
    sys.exit(main())
