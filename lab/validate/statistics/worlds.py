"""Worlds without a difference, which tests and intervals of the product are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.validate.statistics.object_worlds import ObjectWorld

OBJECT_WORLDS = (
    ObjectWorld("independent images"),
    ObjectWorld("clustered prompts", prompt=0.4, interaction=0.2),
    ObjectWorld("repeated detections", prompt=0.4, interaction=0.2, repeats=3.0),
    ObjectWorld("rare objects", prompt=0.4, interaction=0.2, noise=0.2, frequency=0.01),
    ObjectWorld("shared noise", prompt=0.3, noise=0.6),
    ObjectWorld("named by the prompt", prompt=0.9, noise=0.08, repeats=0.3),
)
COVERAGE_WORLDS = (
    ObjectWorld("independent images", frequency=0.2, n_prompts=100),
    ObjectWorld("clustered prompts", prompt=0.4, interaction=0.2, frequency=0.2, n_prompts=100),
    ObjectWorld("repeated detections", 0.4, 0.2, frequency=0.2, repeats=3.0, n_prompts=100),
    ObjectWorld("shared noise", prompt=0.3, noise=0.6, frequency=0.2, n_prompts=100),
    ObjectWorld("rare objects, some 6 images", 0.4, 0.2, frequency=0.012, n_prompts=100),
    ObjectWorld("rare objects, some 20 images", 0.4, 0.2, frequency=0.04, n_prompts=100),
)
GAP_WORLDS = ("normal", "heavy tails (t, 3 degrees)", "skewed (exponential)")


def draw_gaps(
    name: str, n_prompts: int, columns: int, rng: np.random.Generator, *, n_seeds: int = 3
) -> NDArray[np.float64]:
    """Draw differences of mean 0 (`GAP_WORLDS`), shape (n_prompts, n_seeds, columns); seeds share their prompt's part.

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
