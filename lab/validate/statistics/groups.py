"""Rejections of the test whether professions differ, where they do not and images of a noise hang together."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.group_swaps import group_swaps
from lab.validate.statistics.simulation import COLUMNS, rejection_row

GROUPS, DRAWS, WORDS, ATTRIBUTES = 12, 9, 3, 5
OWN, SHARED = "each profession its noises", "professions share their noises"
LOST, UNEVEN = "one word of an image undecided in two", "undecided by profession, 0 to 60 %"
GROUP_WORLDS = (OWN, SHARED, LOST, UNEVEN)


def draw_readings(name: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw whether attributes are read, (groups, draws, words, attributes): NaN where undecided; no group differs."""
    noises = 1 if name == SHARED else GROUPS
    latent = 0.8 * rng.standard_normal((noises, DRAWS, 1, 1))
    latent = latent + 0.4 * rng.standard_normal((GROUPS, DRAWS, WORDS, 1))
    latent = latent + 0.45 * rng.standard_normal((GROUPS, DRAWS, WORDS, ATTRIBUTES))
    values = (latent > 1).astype(float)
    if name == LOST:
        values[rng.random(values.shape) < np.where(values == 1, 0.5, 0.1)] = np.nan
    if name == UNEVEN:
        values[rng.random(values.shape) < np.linspace(0, 0.6, GROUPS)[:, None, None, None]] = np.nan
    return values


def group_rejections(*, simulations: int = 500, permutations: int = 199, seed: int = 0) -> pd.DataFrame:
    """Return how often groups are said to differ that do not; one row per world and test."""
    rows = []
    for number, name in enumerate(GROUP_WORLDS):
        rng, found = np.random.default_rng([seed, 970 + number]), []
        for one in range(simulations):
            values = draw_readings(name, rng)
            test = group_swaps(values.reshape(GROUPS, DRAWS, -1), draws=permutations, seed=one)
            found.append((test.p_value[0], np.fmin.reduce(test.p_adjusted), _independent(values[..., 0])))
        tests = (
            "one word and attribute, draws change places",
            "any of 3 words and 5 attributes, max-T",
            "one attribute of all words, images independent",
        )
        rows += [
            rejection_row(name, test, test != tests[2], np.array(p))
            for test, p in zip(tests, zip(*found), strict=True)
        ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _independent(values: NDArray[np.float64]) -> float:
    """Pearson's chi-square of the images of all words, as though each had a noise of its own."""
    counts = np.stack([np.nansum(values == kind, axis=(1, 2)) for kind in (0, 1)])
    if (counts.sum(axis=0) == 0).any() or (counts.sum(axis=1) == 0).any():
        return float("nan")
    return float(stats.chi2_contingency(counts).pvalue)
