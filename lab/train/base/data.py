"""Training data: captions with the scenes that go with them, drawn once and kept as palette indices."""

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import torch

from lab.train.base.captions import random_caption
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.palette import RGB
from probes.toyworld.scene import CaptionContent, Scene, sample_scene
from probes.toyworld.world import load_world


@dataclass(frozen=True)
class Drawings:
    """Captions and pictures of one world.

    ``indices`` is ``(n, 64, 64)`` uint8; :meth:`pixels` gives ``(k, 3, 64, 64)`` float32 in [-1, 1]. ``zones`` is
    ``(n, 16, 16)`` bool (:func:`small_zones`), or None where they were not asked for.
    """

    captions: list[str]
    indices: np.ndarray
    zones: np.ndarray | None = None

    def pixels(self, rows: np.ndarray, device: str | torch.device = "cpu") -> torch.Tensor:
        """The pictures at ``rows``."""
        image = torch.from_numpy(RGB[self.indices[rows]]).to(device)
        return image.permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def small_zones(named: CaptionContent, scene: Scene) -> np.ndarray:
    """Cells ``(16, 16)`` of the latents where small things can be: feet, hands, neck, face, head, what is held or near.

    The zones follow from the caption and the figure's place alone, not from what the figure happens to wear or on
    which side a thing happens to be, so a loss that counts them more has the same optimum.
    """
    objects = {name: "centre" for slot, name in named.objects.items() if slot == "wide"}
    plain = replace(scene, wears=dict.fromkeys(scene.wears, "none"), objects=objects)
    worn = {"feet": "boots", "hands": "gloves", "neck": "tie", "face": "mask", "head": "hat"}
    without = draw(plain)
    zones = draw(replace(plain, wears=plain.wears | worn)) != without
    for slot in ("ground", "held", "sky"):
        for side in ("left", "right"):
            if slot in named.objects:
                zones |= draw(replace(plain, objects=objects | {named.objects[slot]: side})) != without
    return zones.reshape(16, 4, 16, 4).any((1, 3))


def make_drawings(
    world_name: str,
    count: int,
    seed: int | Sequence[int],
    often: Mapping[str, int] | None = None,
    with_zones: bool = False,
) -> Drawings:
    """Draw ``count`` captions and pictures of a world from a seed; ``often`` as in :func:`random_caption`.

    The zones of small things take two to eight further drawings each, and are made where asked for.
    """
    world = load_world(world_name)
    rng = np.random.default_rng(seed)
    captions, indices = [], np.empty((count, SIZE, SIZE), dtype=np.uint8)
    zones = np.empty((count, 16, 16), dtype=bool) if with_zones else None
    for row in range(count):
        caption, named = random_caption(world, rng, often)
        captions.append(caption)
        scene = sample_scene(named, world, rng)
        indices[row] = draw(scene)
        if with_zones:
            zones[row] = small_zones(named, scene)
    return Drawings(captions, indices, zones)


def make_many_drawings(world_name: str, count: int, seed: int, processes: int, part: int = 5000) -> Drawings:
    """Draw captions and pictures with zones in several processes: the same whatever their number.

    Each `part` drawings have a seed of their own, made of `seed` and their number.
    """
    sizes = [min(part, count - start) for start in range(0, count, part)]
    seeds = [(seed, number) for number in range(len(sizes))]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(make_drawings, repeat(world_name), sizes, seeds, repeat(None), repeat(True)))
    return Drawings(
        [caption for one in parts for caption in one.captions],
        np.concatenate([one.indices for one in parts]),
        np.concatenate([one.zones for one in parts]),
    )
