"""Simulated worlds without and with a known difference, to hold tests and intervals against.

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
    """How presence and detections come about; the first three numbers are parts of the variance."""

    name: str
    prompt: float = 0.0
    interaction: float = 0.0
    noise: float = 0.0
    frequency: float = 0.3
    repeats: float = 0.0  # mean number of further detections in an image that has the object
    n_prompts: int = 60
    n_seeds: int = 2


OBJECT_WORLDS = (
    ObjectWorld("independent images"),
    ObjectWorld("clustered prompts", prompt=0.4, interaction=0.2),
    ObjectWorld("repeated detections", prompt=0.4, interaction=0.2, repeats=3.0),
    ObjectWorld("rare objects", prompt=0.4, interaction=0.2, noise=0.2, frequency=0.01),
    ObjectWorld("shared noise", prompt=0.3, noise=0.6),
    ObjectWorld("named by the prompt", prompt=0.9, noise=0.08, repeats=0.3),
)


def draw_table(
    world: ObjectWorld,
    n_objects: int,
    rng: np.random.Generator,
    *,
    shift: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> ObjectTable:
    """Draw a table of a world; indicator g has the frequency ``world.frequency * shift[g]``.

    Parameters
    ----------
    world : ObjectWorld
    n_objects : int
    rng : Generator
    shift : tuple of float
        A factor an indicator; 1 in all is the world without a difference.
    """
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
    return ObjectTable(INDICATORS[-k:], names, np.arange(n_prompts), seeds, prompt, which, *cells, 0)


GAP_WORLDS = ("normal", "heavy tails (t, 3 degrees)", "skewed (exponential)")


def draw_gaps(
    name: str, n_prompts: int, columns: int, rng: np.random.Generator, *, n_seeds: int = 3
) -> NDArray[np.float64]:
    """Differences of mean 0, shape (n_prompts, n_seeds, columns); seeds share their prompt's part.

    Parameters
    ----------
    name : str
        One of `GAP_WORLDS`: what the differences of prompts are drawn from.
    n_prompts, columns, n_seeds : int
    rng : Generator

    Returns
    -------
    ndarray of float64
        The standard deviation between seeds of a prompt is 0.5.
    """
    shape = (n_prompts, 1, columns)
    if name == GAP_WORLDS[0]:
        prompt = rng.standard_normal(shape)
    elif name == GAP_WORLDS[1]:
        prompt = rng.standard_t(3, shape)
    else:
        prompt = rng.exponential(1, shape) - 1
    return prompt + 0.5 * rng.standard_normal((n_prompts, n_seeds, columns))


COVERAGE_WORLDS = (
    ObjectWorld("independent images", frequency=0.2, n_prompts=100),
    ObjectWorld("clustered prompts", prompt=0.4, interaction=0.2, frequency=0.2, n_prompts=100),
    ObjectWorld("repeated detections", 0.4, 0.2, frequency=0.2, repeats=3.0, n_prompts=100),
    ObjectWorld("shared noise", prompt=0.3, noise=0.6, frequency=0.2, n_prompts=100),
    ObjectWorld("rare objects, some 6 images", 0.4, 0.2, frequency=0.012, n_prompts=100),
    ObjectWorld("rare objects, some 20 images", 0.4, 0.2, frequency=0.04, n_prompts=100),
)
