"""Simulated tables of objects without and with a known difference, for the power of tests.

A world of objects draws presence from a normal variable that adds a part shared by the prompt, a part shared by
prompt and indicator (so that seeds of a prompt agree with each other), a part shared by a seed's indicators (shared
noise) and an own part; its variance is 1, so frequencies are known exactly. Under the null the indicators are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.object_counts import ObjectTable

INDICATORS = ("neutral", "feminine", "masculine")


@dataclass(frozen=True)
class ObjectWorld:
    """Parameters of simulated presence and detections; the first three numbers are parts of the variance."""

    name: str
    prompt: float = 0.0
    interaction: float = 0.0
    noise: float = 0.0
    frequency: float = 0.3
    repeats: float = 0.0  # mean number of further detections in an image that has the object
    n_prompts: int = 60
    n_seeds: int = 2


def draw_table(
    world: ObjectWorld,
    n_objects: int,
    rng: np.random.Generator,
    *,
    shift: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> ObjectTable:
    """Draw a table of a world; indicator g has the frequency ``world.frequency * shift[g]``."""
    shape = (n_objects, world.n_prompts, world.n_seeds, len(shift))
    remainder = 1 - world.prompt - world.interaction - world.noise
    latent = np.sqrt(remainder) * rng.standard_normal(shape)
    for share, axes in ((world.prompt, (2, 3)), (world.interaction, (2,)), (world.noise, (3,))):
        if share:
            size = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
            latent += np.sqrt(share) * rng.standard_normal(size)
    present = latent < special.ndtri(world.frequency * np.array(shift))
    detections = present * (1 + rng.poisson(world.repeats, shape)) if world.repeats else present
    return table_of(present.sum(axis=2), np.asarray(detections).sum(axis=2), world.n_seeds)


def table_of(presence: NDArray, detections: NDArray, n_seeds: int) -> ObjectTable:
    """Object table of arrays of shape (n_objects, n_prompts, k)."""
    n_objects, n_prompts, k = presence.shape
    which, prompt = np.nonzero(detections.any(axis=2))
    cells = (counts[which, prompt].astype(np.int64) for counts in (presence, detections))
    seeds = np.full(n_prompts, n_seeds, np.int64)
    names = np.array([f"object {o}" for o in range(n_objects)], object)
    return ObjectTable(INDICATORS[-k:], names, np.arange(n_prompts), seeds, prompt, which, *cells)
