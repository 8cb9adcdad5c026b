"""A small ResNet, trained to say what the checker sees: the pretext of the features, as classes are ImageNet's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from lab.train.base.loop import Budget, Lessons
from lab.train.detectors.pictures import Pictures
from lab.train.stages import Options
from probes.models.pretrained import timm_model
from probes.toyworld.checker import PLACES, THINGS

ARCHITECTURE = "resnet18"  # timm's entry of basic blocks, with small widths
ARGUMENTS: dict[str, Any] = {
    "layers": (1, 1, 1, 1),
    "channels": (32, 48, 96, 128),
    "stem_width": 32,
    "num_classes": len(THINGS),
}
_THINGS = len(THINGS) - len(PLACES)


def new_resnet() -> torch.nn.Module:
    """An untrained network."""
    return timm_model(ARCHITECTURE, ARGUMENTS)


def resnet_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean binary cross-entropy of attributes and objects, and cross-entropy of the place."""
    things = F.binary_cross_entropy_with_logits(logits[:, :_THINGS], labels[:, :_THINGS].float())
    return things + 0.1 * F.cross_entropy(logits[:, _THINGS:], labels[:, _THINGS:].float().argmax(1))


def lessons(model: torch.nn.Module, pictures: Pictures, options: Options, budget: Budget) -> Lessons:
    """What learns, what is stored, and the loss of a step, half of whose pictures are mirrored."""
    rng = np.random.default_rng(options.seed)

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = rng.integers(len(pictures), size=options.batch)
        pixels, labels = pictures.pixels(rows), torch.from_numpy(pictures.labels[rows])
        mirrored = torch.from_numpy(rng.random(options.batch) < 0.5)
        pixels[mirrored] = pixels[mirrored].flip(3)
        return {"loss": resnet_loss(model(pixels), labels)}

    return model, model, loss_of
