"""A small ResNet, trained to say what the checker sees: the pretext of the features, as classes are ImageNet's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from lab.train.base.loop import Budget, Log, train_loop
from lab.train.detectors.pictures import LabelledPictures
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


def train_resnet(
    model: torch.nn.Module,
    pictures: LabelledPictures,
    budget: Budget,
    log: Log,
    *,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    seed: int = 0,
    save: Callable[[], None] | None = None,
) -> None:
    """Train on pictures, half of each batch mirrored."""
    rng = np.random.default_rng(seed)
    model.train()

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = rng.integers(len(pictures), size=batch_size)
        pixels, labels = pictures.pixels(rows), torch.from_numpy(pictures.labels[rows])
        mirrored = torch.from_numpy(rng.random(batch_size) < 0.5)
        pixels[mirrored] = pixels[mirrored].flip(3)
        return {"loss": resnet_loss(model(pixels), labels)}

    train_loop(model, loss_of, budget, log, learning_rate, 0.05, save=save)
    model.eval()
