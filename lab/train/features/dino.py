"""A small DINO: a vision transformer that learns without labels, by distillation from a moving average of itself.

The objective is that of Caron et al. 2021 (sections 3.1 and 3.2): a student sees two large and several small crops of
a picture, a teacher the two large ones; the student's distribution over prototypes is to be the teacher's of another
crop. The teacher is the exponential moving average of the student, its output sharpened and balanced over the
prototypes by the iteration of Sinkhorn and Knopp, as in Caron et al. 2020 and Oquab et al. 2024: with the moving centre
of 2021 so small a network came to use some six of 512 prototypes within 400 steps. Toyworld tells things apart by their
colours, so crops are jittered in colour less than the paper does.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from lab.train.base.loop import Budget, Lessons
from lab.train.detectors.pictures import Pictures
from lab.train.stages import Options
from probes.models.pretrained import timm_model

ARCHITECTURE = "vit_tiny_patch16_224"  # timm's entry of plain vision transformers, with small settings
ARGUMENTS: dict[str, Any] = {
    "img_size": 64,
    "patch_size": 8,
    "embed_dim": 64,
    "depth": 4,
    "num_heads": 4,
    "num_classes": 0,
    "dynamic_img_size": True,
}
LARGE, SMALL, SMALL_CROPS = 6, 3, 4  # patches along a side of the two large crops and of the small ones
PROTOTYPES, HIDDEN, BOTTLENECK = 128, 192, 64
STUDENT, TEACHER = 0.1, 0.04  # temperatures
MOMENTUM = 0.98  # of the teacher's moving average; it rises to 1
ROUNDS = 3  # of the balancing


class Head(nn.Module):
    """The projection head: a perceptron to a unit vector, and its cosines with the prototypes."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, HIDDEN),
            nn.GELU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.GELU(),
            nn.Linear(HIDDEN, BOTTLENECK),
        )
        self.prototypes = nn.Parameter(torch.randn(PROTOTYPES, BOTTLENECK))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Cosines ``(n, prototypes)`` of vectors ``(n, width)``."""
        return F.linear(F.normalize(self.layers(vectors), dim=-1), F.normalize(self.prototypes, dim=-1))


class Network(nn.Module):
    """A vision transformer with a projection head on its class token."""

    def __init__(self, backbone: nn.Module):
        super().__init__()
        self.backbone, self.head = backbone, Head(backbone.num_features)

    def forward(self, crops: torch.Tensor) -> torch.Tensor:
        """Cosines ``(n, prototypes)`` of crops ``(n, 3, side, side)``."""
        return self.head(self.backbone(crops))


def new_dino() -> nn.Module:
    """An untrained backbone."""
    return timm_model(ARCHITECTURE, ARGUMENTS)


def crops(
    pixels: torch.Tensor, side: int, area: tuple[float, float], generator: torch.Generator
) -> torch.Tensor:
    """One random crop of each picture, scaled to ``side``, half of them mirrored, with jittered colours.

    It holds a share of the picture in ``area``; its sides are in the ratio of 3/4 to 4/3.
    """
    n = len(pixels)

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand((n, *shape), generator=generator)

    share, ratio = uniform(*area), torch.exp(uniform(-math.log(4 / 3), math.log(4 / 3)) / 2)
    scales = torch.stack([share.sqrt() * ratio, share.sqrt() / ratio], 1).clamp(max=1)
    shifts = uniform(-1, 1, 2) * (1 - scales)
    mirror = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    places = torch.zeros(n, 2, 3)
    places[:, 0, 0], places[:, 1, 1], places[:, :, 2] = scales[:, 0] * mirror, scales[:, 1], shifts
    grid = F.affine_grid(places, [n, 3, side, side], align_corners=False)
    cut = F.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    grey = cut.mean(1, keepdim=True)
    cut = grey + (cut - grey) * uniform(0.8, 1.2, 1, 1, 1)  # saturation
    return (cut * uniform(0.8, 1.2, 1, 1, 1) + uniform(-0.15, 0.15, 1, 1, 1)).clamp(
        -1, 1
    )  # contrast, brightness


@torch.no_grad()
def balanced(cosines: torch.Tensor) -> torch.Tensor:
    """The teacher's distributions over prototypes, sharpened, such that over the crops all are used equally."""
    weights = ((cosines - cosines.max()) / TEACHER).exp()
    for _ in range(ROUNDS):
        weights = weights / weights.sum(0, keepdim=True).clamp(min=1e-12)
        weights = weights / weights.sum(1, keepdim=True)
    return weights


def dino_loss(student: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mean cross-entropy of the student's crops against the teacher's, but of a crop against itself."""
    logs = [F.log_softmax(one / STUDENT, dim=-1) for one in student]
    terms = [
        -(target * log).sum(1).mean()
        for i, target in enumerate(targets)
        for j, log in enumerate(logs)
        if i != j
    ]
    return torch.stack(terms).mean()


def lessons(backbone: nn.Module, pictures: Pictures, options: Options, budget: Budget) -> Lessons:
    """What learns (the student), what is stored (the teacher's backbone), and the loss of a step."""
    rng, generator = np.random.default_rng(options.seed), torch.Generator().manual_seed(options.seed)
    student = Network(backbone).train()
    teacher = copy.deepcopy(student).requires_grad_(False)
    patch = backbone.patch_embed.patch_size[0]

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        used = budget.fraction(step)
        if step:
            follow(teacher, student, 1 - (1 - MOMENTUM) * (math.cos(math.pi * used) + 1) / 2)
        pixels = pictures.pixels(rng.integers(len(pictures), size=options.batch))
        large = [crops(pixels, LARGE * patch, (0.4, 1.0), generator) for _ in range(2)]
        small = [crops(pixels, SMALL * patch, (0.1, 0.4), generator) for _ in range(SMALL_CROPS)]
        with torch.no_grad():
            wanted = balanced(teacher(torch.cat(large)))
        said = [*student(torch.cat(large)).chunk(2), *student(torch.cat(small)).chunk(SMALL_CROPS)]
        mean = wanted.mean(0)
        return {
            "loss": dino_loss(said, wanted.chunk(2)),
            "entropy": -(wanted * (wanted + 1e-9).log()).sum(1).mean(),
            "mean_entropy": -(mean * (mean + 1e-9).log()).sum(),
        }

    return student, teacher.backbone, loss_of


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """Move the teacher's parameters towards the student's."""
    ours = list(teacher.parameters())
    torch._foreach_lerp_(ours, [value.detach() for value in student.parameters()], 1 - momentum)
