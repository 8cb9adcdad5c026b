"""Rejections of the test whether attributes differ between two words, where images or attributes hang together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.attribute_swaps import attribute_swaps
from analysis.stats.noise_floor import gep_floor
from lab.validate.statistics.simulation import COLUMNS, rejection_row

PROMPTS, ATTRIBUTES, DRAWS = 12, 8, 9
TESTS = (
    "all prompts, words change places",
    "one prompt, words change places",
    "all prompts, images and attributes independent",
)


@dataclass(frozen=True)
class AttributeWorld:
    """Parts of the variance of whether an attribute is there.

    Attributes
    ----------
    name : str
    noise : float
        Of a noise, for both words and all attributes.
    tied : float
        Of what is left, that of an image for all its attributes.
    lean : float
        Shift of the first word against the middle, of variance 1.
    together : float
        Of what is an image's own, what all prompts share by noise and word: one noise is under all of them.
    """

    name: str
    noise: float
    tied: float
    lean: float = 0.0
    together: float = 0.0


ATTRIBUTE_WORLDS = (
    AttributeWorld("independent", 0.0, 0.0),
    AttributeWorld("attributes of an image tied", 0.0, 0.9),
    AttributeWorld("images of a noise alike", 0.9, 0.0),
    AttributeWorld("both", 0.7, 0.9),
    AttributeWorld("one noise under all prompts", 0.5, 0.9, together=0.3),
)
LEANING = (
    AttributeWorld("lean .2, independent", 0.0, 0.0, 0.2),
    AttributeWorld("lean .2, attributes of an image tied", 0.0, 0.9, 0.2),
    AttributeWorld("lean .2, images of a noise alike", 0.97, 0.5, 0.2),
)


def draw_attributes(world: AttributeWorld, rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """Draw whether attributes are there, (prompts, attributes, draws) of each of two words."""

    def normal(*shape: int) -> NDArray[np.float64]:
        return rng.standard_normal(shape)

    rest = 1 - world.noise
    of_noise = np.sqrt(world.noise) * normal(PROMPTS, 1, DRAWS)
    images = []
    for sign in (1, -1):
        image = np.sqrt(rest * world.tied * (1 - world.together)) * normal(PROMPTS, 1, DRAWS)
        image = image + np.sqrt(rest * world.tied * world.together) * normal(1, 1, DRAWS)
        own = np.sqrt(rest * (1 - world.tied)) * normal(PROMPTS, ATTRIBUTES, DRAWS)
        images.append((of_noise + image + own + sign * world.lean > 0).astype(float))
    return images


def attribute_rejections(
    worlds: tuple[AttributeWorld, ...] = ATTRIBUTE_WORLDS,
    *,
    simulations: int = 500,
    permutations: int = 199,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often attributes are said to differ between two words; one row per world and test."""
    rows = []
    for number, world in enumerate(worlds):
        rng, found = np.random.default_rng([seed, 1160 + number]), []
        for one in range(simulations):
            images = draw_attributes(world, rng)
            shared = world.together > 0
            whole, (first, *_) = attribute_swaps(*images, shared=shared, draws=permutations, seed=one)
            counts = [of_word.sum(axis=2).astype(int).ravel() for of_word in images]
            apart = gep_floor(counts[0], DRAWS, counts[1], DRAWS)
            found.append((whole.p_value, first.p_value, apart.p_value))
        rows += [
            rejection_row(world.name, test, test != TESTS[2], np.array(p))
            for test, p in zip(TESTS, zip(*found, strict=True), strict=True)
        ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
