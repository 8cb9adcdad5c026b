"""Training data: captions with the scenes that go with them, drawn once and kept as palette indices."""

from dataclasses import dataclass

import numpy as np
import torch

from probes.toyworld.captions import random_caption
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.palette import RGB
from probes.toyworld.scene import complete
from probes.toyworld.world import load_world


@dataclass(frozen=True)
class Drawings:
    """Captions and pictures of one world.

    ``indices`` is ``(n, 64, 64)`` uint8; :meth:`pixels` gives ``(k, 3, 64, 64)`` float32 in [-1, 1].
    """

    captions: list[str]
    indices: np.ndarray

    def pixels(self, rows: np.ndarray, device: str | torch.device = "cpu") -> torch.Tensor:
        """The pictures at ``rows``."""
        image = torch.from_numpy(RGB[self.indices[rows]]).to(device)
        return image.permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def make_drawings(world_name: str, count: int, seed: int) -> Drawings:
    """Draw ``count`` captions and pictures of a world from a seed."""
    world = load_world(world_name)
    rng = np.random.default_rng(seed)
    captions, indices = [], np.empty((count, SIZE, SIZE), dtype=np.uint8)
    for row in range(count):
        caption, named = random_caption(world, rng)
        captions.append(caption)
        indices[row] = draw(complete(named, world, rng))
    return Drawings(captions, indices)
