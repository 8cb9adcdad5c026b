"""Renderings, half of them passed through the autoencoder, with what the checker sees in each rendering."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lab.train.detectors.pictures import make_pictures
from probes.models.pretrained import arrays
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.palette import RGB

MEAN = STD = (0.5, 0.5, 0.5)  # of the networks' input, as for toyworld's CLIP


@dataclass(frozen=True)
class LabelledPictures:
    """Pictures ``(n, 64, 64, 3)`` and a column for each of `THINGS` ``(n, 47)``, of whose places just one is true."""

    images: NDArray[np.uint8]
    labels: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.images)

    def pixels(self, rows: NDArray[np.intp]) -> torch.Tensor:
        """The pictures at ``rows`` as the networks take them: ``(k, 3, 64, 64)`` float32 in [-1, 1]."""
        return torch.from_numpy(self.images[rows]).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)

    def save(self, path: Path) -> None:
        """Write to an ``.npz`` file."""
        np.savez_compressed(path, images=self.images, labels=self.labels)

    @classmethod
    def load(cls, path: Path) -> LabelledPictures:
        """Read what `save` wrote."""
        with arrays(path) as file:
            return cls(file["images"], file["labels"])


def make_labelled(count: int, seed: int, *, through_vae: float = 0.5) -> LabelledPictures:
    """Draw pictures of the null world with what the checker sees in them before any passes the autoencoder.

    The null world names and wears everything, and tells no indicator words apart.
    """
    pictures = make_pictures(count, seed, through_vae=through_vae)
    seen = read_images(RGB[pictures.indices])
    return LabelledPictures(pictures.images, seen[list(THINGS)].to_numpy(bool))
