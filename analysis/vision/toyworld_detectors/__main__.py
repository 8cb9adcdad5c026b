"""Train toyworld's detectors: ``python -m analysis.vision.toyworld_detectors --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``pictures``: renderings with known boxes, labels and masks, half of them passed through the autoencoder;
2. ``sam``: the small Segment Anything, prompted by boxes;
3. ``dino``: the small Grounding DINO;
4. ``export``: what was trained as float16 safetensors, with its settings beside it.

A stage goes on from the checkpoint that is there, so a training can be done in several sittings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from analysis.vision import segment_anything
from analysis.vision.checkpoints import fit, read_weights
from analysis.vision.toyworld_detectors import dino, sam
from analysis.vision.toyworld_detectors.dino_training import train_dino
from analysis.vision.toyworld_detectors.pictures import Pictures, make_pictures
from analysis.vision.toyworld_detectors.weights import export, save_weights
from probes.toyworld import WEIGHTS
from probes.toyworld.training.loop import Budget, Log

STAGES = ("pictures", "sam", "dino", "export")
STEPS = {"sam": 3_000, "dino": 12_000}
FOLDERS = {"sam": "sam", "dino": "grounding-dino"}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.vision.toyworld_detectors",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="a short sitting: --stage sam --steps 500; what stands in --work is gone on from",
    )
    parser.add_argument("--work", type=Path, default=Path("training"), help="folder of intermediate results")
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="where export writes")
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--steps", type=int, help=f"of a training; as a rule {STEPS}")
    parser.add_argument("--minutes", type=float, default=0.0, help="0: only the steps count")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, help="as a rule 1e-3 for sam, 5e-4 for dino")
    parser.add_argument("--head-start", type=int, default=500, help="steps of dino's dense loss")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    for stage in STAGES:
        if stage not in options.stage:
            continue
        if stage == "pictures":
            make_pictures(options.pictures, options.seed).save(options.work / "pictures.npz")
        elif stage == "export":
            run_export(options.work, options.weights)
        else:
            run_training(stage, options)
    return 0


def model_of(name: str, work: Path) -> torch.nn.Module:
    """``sam`` or ``dino``, with the weights that stand in the work folder, freshly drawn where there are none."""
    model = segment_anything.build(sam.SETTINGS) if name == "sam" else dino.new_dino(work)
    checkpoint = work / f"{name}.safetensors"
    if checkpoint.exists():
        fit(model, read_weights(checkpoint, "--work"), path=checkpoint, field="--work", what=FOLDERS[name])
    return model


def run_training(name: str, options: argparse.Namespace) -> None:
    """Train one of the two."""
    torch.manual_seed(options.seed)
    model, checkpoint = model_of(name, options.work), options.work / f"{name}.safetensors"
    more = {"learning_rate": options.learning_rate} if options.learning_rate else {}
    if name == "dino":
        more["head_start"] = options.head_start
    train = sam.train_sam if name == "sam" else train_dino
    train(
        model,
        Pictures.load(options.work / "pictures.npz"),
        Budget(options.steps or STEPS[name], options.minutes),
        Log(options.work / f"{name}.log.jsonl"),
        batch_size=options.batch,
        seed=options.seed,
        checkpoint=checkpoint,
        **more,
    )
    save_weights(model, checkpoint)
    last = json.loads((options.work / f"{name}.log.jsonl").read_text().splitlines()[-1])
    with _history(name, options.work).open("a") as file:
        rate = f", learning rate {options.learning_rate:g}" if options.learning_rate else ""
        print(
            f"past step {last['step']} of batches of {options.batch}{rate}, {last['minutes']} min", file=file
        )


def run_export(work: Path, weights: Path) -> None:
    """Write what was trained to the weights folder."""
    for name, folder in FOLDERS.items():
        if (work / f"{name}.safetensors").exists():
            export(model_of(name, work), weights / folder, sam.SETTINGS if name == "sam" else dino.SETTINGS)
            done = {"history": _history(name, work).read_text().splitlines()}
            (weights / folder / "recipe.json").write_text(json.dumps(done, indent=1) + "\n")
            if name == "dino":
                dino.save_text_encoder(weights / folder / dino.SETTINGS["text_encoder"])


def _history(name: str, work: Path) -> Path:
    """What was done so far, a line a sitting."""
    return work / f"{name}.history.txt"


if __name__ == "__main__":
    sys.exit(main())
