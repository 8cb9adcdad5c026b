"""Train the networks that observe toyworld's images: ``python -m lab train sam --help``, and so for each name.

Stages: ``pictures``: pictures whose content is known, most of them renderings; ``train``: the network; ``export``:
what was trained as float16 safetensors, with its settings beside it. A stage goes on from the weights that are in
``--work``, so a training can be done in several sittings: ``--stage train --minutes 5``. ``ram-whole`` trains ram's
image encoder, too, on ram's pictures and from its weights: ``--stage whole export``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn

from analysis.observe.checkpoints import fit, read_weights
from analysis.observe.questions.toyworld_network import AnswerNetwork
from lab.train.base.clip import save_clip
from lab.train.base.loop import Budget, Lessons, Log, save_weights, train_loop
from lab.train.detectors import dino, dino_training, sam, tagged_images, tagger
from lab.train.detectors.pictures import Pictures, make_labelled, make_pictures, make_questioned
from lab.train.features import clip, resnet
from lab.train.features import dino as feature_dino
from lab.train.questions import lessons as questions
from lab.train.stages import Options, Stage, Trainer, write_json, write_recipe
from probes import command_line
from probes.toyworld import WEIGHTS

HELD_BACK = "held-back.npz"
CALIBRATION = 90_001  # seed of renderings that say the tagger's thresholds
COMMON = {"minutes": 0.0, "warmup": 100, "clip": 1.0, "decay": 0.0}


def recipe(numbers: dict[str, Any]) -> type:
    """A dataclass of the numbers of a training: defaults, or pairs of a type and a default."""
    pairs = {name: one if isinstance(one, tuple) else (type(one), one) for name, one in numbers.items()}
    return make_dataclass("Recipe", [(name, *pair) for name, pair in pairs.items()])


@dataclass(frozen=True)
class TrainedReader:
    """A network: where its weights lie, and how it is made, from what pictures, by what lessons.

    ``draw`` gives the pictures, ``lessons`` what learns of a model, what is stored of it, and the loss of each step,
    ``export`` writes a trained model to a folder. ``numbers`` (:data:`NUMBERS`) and ``more`` are those of its recipe.
    """

    folder: str
    new: Callable[[], nn.Module]
    draw: Callable[..., Pictures]
    lessons: Callable[[Any, Pictures, Options, Budget], Lessons]
    export: Callable[[Any, Path, Options], None]
    numbers: tuple[float, ...]
    more: dict[str, Any]

    def model(self, options: Options) -> nn.Module:
        """The network with the weights in the work folder, freshly drawn where there are none."""
        model, path = self.new(), options.work / "weights.safetensors"
        if path.exists():
            fit(model, read_weights(path, "--work"), path=path, field="--work", what=self.folder)
        return model

    def run_pictures(self, options: Options) -> None:
        """Draw the pictures."""
        tagged = self.folder == "ram"
        pictures = self.draw(options) if tagged else self.draw(options.pictures, options.seed)
        pictures.save(options.work / "pictures.npz")

    def run_train(self, stage: str, options: Options) -> None:
        """Train the network."""
        torch.manual_seed(options.seed)
        model = self.model(options).train()
        pictures = Pictures.load(options.work / "pictures.npz")
        budget = Budget(options.steps, options.minutes, options.warmup)
        learnt, stored, loss_of = self.lessons(model, pictures, options, budget)
        train_loop(
            learnt,
            loss_of,
            budget,
            Log(options.work / f"{stage}.log.jsonl", 25),
            options.rate,
            options.weight_decay,
            decay=options.decay,
            clip=options.clip,
            weights=options.work / "weights.safetensors",
            stored=stored,
        )

    def run_export(self, options: Options) -> None:
        """Write what was trained, with its recipe; CLIP's says what was trained before, too."""
        folder = options.weights / self.folder
        self.export(self.model(options).eval(), folder, options)
        before = WEIGHTS / self.folder / "recipe.json"
        goes_on = self.folder == "clip" and before.exists()
        write_recipe(folder, options, json.loads(before.read_text())["history"] if goes_on else ())

    def trainer(self, work: str, stage: str) -> Trainer:
        """Its training, whose stage that trains has a name."""
        return Trainer(
            __doc__,
            recipe(COMMON | dict(zip(NUMBERS, self.numbers, strict=True)) | self.more),
            stages=(
                Stage("pictures", self.run_pictures, makes=("pictures.npz",)),
                Stage(
                    stage,
                    partial(self.run_train, stage),
                    needs=("pictures.npz",),
                    makes=("weights.safetensors",),
                ),
                Stage("export", self.run_export, needs=("weights.safetensors",), exports=True),
            ),
            work=work,
            weights=WEIGHTS,
        )


def export_described(
    settings: dict[str, Any] | None, model: nn.Module, folder: Path, options: Options
) -> None:
    """Write ``model.safetensors`` in float16 and its description ``model.json``."""
    save_weights(model, folder / "model.safetensors", torch.float16)
    write_json(folder / "model.json", settings or model.settings)


def export_dino(model: nn.Module, folder: Path, options: Options) -> None:
    """Write the small Grounding DINO with the text encoder's vocabulary."""
    export_described(dino.SETTINGS, model, folder, options)
    dino.save_text_encoder(folder / dino.SETTINGS["text_encoder"])


def export_ram(model: nn.Module, folder: Path, options: Options) -> None:
    """Write the tagger, with thresholds from fresh renderings and pictures that were held back."""
    fresh = tagged_images.tagged(tagged_images.renderings(options.calibration, CALIBRATION))
    held_back = Pictures.load(options.work / HELD_BACK)
    limits = tagger.thresholds(model, Pictures.together([fresh, held_back]))
    export_described(tagger.SETTINGS, model, folder, options)
    tagger.export_tags(folder, limits)


def export_timm(described: Any, model: nn.Module, folder: Path, options: Options) -> None:
    """Write ``model.safetensors`` in float16 and ``config.json``, from which timm makes and fills the network."""
    save_weights(model, folder / "model.safetensors", torch.float16)
    classes = described.ARGUMENTS["num_classes"]
    config = {
        "architecture": described.ARCHITECTURE,
        "num_classes": classes,
        "model_args": {name: one for name, one in described.ARGUMENTS.items() if name != "num_classes"},
        "pretrained_cfg": {
            "input_size": [3, 64, 64],
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "mean": [0.5] * 3,
            "std": [0.5] * 3,
            "num_classes": classes,
        },
    }
    write_json(folder / "config.json", config)


def draw_tagged(options: Options) -> Pictures:
    """Draw what the tagger learns from, and write what is held back for its thresholds."""
    numbers = options.pictures, options.drawn, options.seed, options.rare
    pictures, held_back = tagged_images.make_tagged_images(*numbers)
    held_back.save(options.work / HELD_BACK)
    return pictures


TAGGED = {
    "drawn": (Annotated[int, command_line.whole_number(0), "images by each model"], 240),
    "rare": (Annotated[int, "times that captions of further images by each model name every tag"], 0),
    "calibration": (Annotated[int, "fresh renderings, for the thresholds"], 1_000),
}
HEAD_START = (Annotated[int, "steps of the dense loss"], 500)
NUMBERS = ("pictures", "steps", "batch", "rate", "weight_decay")
NETWORKS = {
    "sam": TrainedReader(
        *("sam", sam.new_sam, make_pictures, sam.lessons, partial(export_described, sam.SETTINGS)),
        (20_000, 3_000, 16, 1e-3, 0.01),
        {"decay": 0.995},
    ),
    "grounding-dino": TrainedReader(
        *("grounding-dino", dino.new_dino, make_pictures, dino_training.lessons, export_dino),
        (20_000, 12_000, 16, 5e-4, 1e-4),
        {"decay": 0.995, "head_start": HEAD_START},
    ),
    "ram": TrainedReader(
        *("ram", tagger.new_tagger, draw_tagged, tagger.lessons, export_ram),
        (20_000, 4_000, 16, 2e-3, 0.01),
        {"decay": 0.995, **TAGGED},
    ),
    "ram-whole": TrainedReader(
        *("ram", tagger.new_tagger, draw_tagged, tagger.whole_lessons, export_ram),
        (20_000, 4_000, 16, 5e-4, 0.01),
        {"decay": 0.98, **TAGGED},
    ),
    "resnet50": TrainedReader(
        *(
            "features/resnet50",
            resnet.new_resnet,
            make_labelled,
            resnet.lessons,
            partial(export_timm, resnet),
        ),
        (4_000, 600, 64, 3e-3, 0.05),
        {"warmup": 30},
    ),
    "dino": TrainedReader(
        *("features/dino", feature_dino.new_dino, make_labelled, feature_dino.lessons),
        partial(export_timm, feature_dino),
        (4_000, 900, 64, 2e-3, 0.04),
        {"warmup": 30, "clip": 3.0},
    ),
    "clip": TrainedReader(
        *("clip", clip.bundled_clip, make_labelled, clip.lessons),
        lambda model, folder, options: save_clip(model, clip.bundled_tokenizer(), folder),
        (4_000, 1_000, 64, 1e-3, 0.02),
        {"warmup": 30},
    ),
    "vqa": TrainedReader(
        *("vqa", AnswerNetwork, make_questioned, questions.lessons, partial(export_described, None)),
        (2_000, 1_000, 32, 3e-3, 0.05),
        {"warmup": 50},
    ),
}
TRAINERS = {
    name: network.trainer(
        f"training/{network.folder.split('/')[-1]}", "whole" if name == "ram-whole" else "train"
    )
    for name, network in NETWORKS.items()
}
