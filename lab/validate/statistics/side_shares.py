"""Coverage of a gap's share of the distance between its sides, whose distance is measured on the same prompts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.word_test import word_test
from lab.validate.statistics.simulation import COLUMNS, covered_row
from lab.validate.statistics.words import MANY, DrawnWords, WordWorld, draw_words

Floats = NDArray[np.float64]
OWN = {"reference": 0.2, "dimensions": MANY}
SHARE_WORLDS = (
    WordWorld("halfway", 0.6, 0.2, 0.3, **OWN),
    WordWorld("lean .6", 0.6, 0.2, 0.3, lean=0.6, **OWN),
    WordWorld("lean 1", 0.6, 0.2, 0.3, lean=1.0, **OWN),
    WordWorld("lean .6, sides near each other", 0.2, 0.1, 0.2, lean=0.6, reference=0.1, dimensions=MANY),
    WordWorld("lean .6, one side's words odder", 0.6, 0.2, 0.3, lean=0.6, second=0.5, **OWN),
    *(
        WordWorld(
            name, 0.6, 0.05, 0.1, lean=0.6, reference=0.05, leaves=leaves, everyone=True, dimensions=MANY
        )
        for name, leaves in (("lean .6, one image in ten another", 0.1), ("lean .6, each image another", 1.0))
    ),
)
PROMPTS, TRUE_PROMPTS, AT_ONCE = 24, 376, 200


def side_share_coverage(*, simulations: int = 500, resamples: int = 500, seed: int = 0) -> pd.DataFrame:
    """Return how often 95 % intervals of a share cover it; one row per world and share.

    The share of two words is that of these words over all prompts: seen in `TRUE_PROMPTS` more. That of all words is
    of the words of such sides over all prompts: the mean gap of all columns by their mean distance.
    """
    rows = []
    for number, world in enumerate(SHARE_WORLDS):
        rng = np.random.default_rng([seed, 1100 + number])
        parts = [
            _part(
                draw_words(world, (3, 3, 0), PROMPTS + TRUE_PROMPTS, n, rng, references=3), resamples, number
            )
            for n in _sizes(simulations)
        ]
        two, truth, several, gaps, distances = (
            np.concatenate(one, axis=-1) for one in zip(*parts, strict=True)
        )
        of_words = gaps.mean() / distances.mean()
        rows.append(covered_row(world.name, "two words, over prompts", truth, (two[0], two[1])))
        rows.append(
            covered_row(world.name, "all words, over words and prompts", of_words, (several[0], several[1]))
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _sizes(simulations: int) -> list[int]:
    """How many columns are drawn at a time."""
    return [min(AT_ONCE, simulations - start) for start in range(0, simulations, AT_ONCE)]


def _part(drawn: DrawnWords, resamples: int, seed: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Intervals of two words' share with the truth, intervals of all words, and all prompts' gaps and distances."""
    gap = (drawn.sides[0] - drawn.sides[1])[0, 0].astype(float)
    distance = 1 - drawn.between[0, 0].astype(float)
    found = bootstrap_interval(gap[:PROMPTS], resamples=resamples, seed=seed)
    two = np.stack([found.low, found.high]) / distance[:PROMPTS].mean(axis=0)
    truth = gap[PROMPTS:].mean(axis=0) / distance[PROMPTS:].mean(axis=0)
    several, apart = _all_words(drawn, slice(None, PROMPTS))
    every, all_apart = _all_words(drawn, slice(PROMPTS, None))
    return two, truth, np.stack([several.low, several.high]) / apart, every.gap, all_apart


def _all_words(drawn: DrawnWords, prompts: slice):
    """The test of the gap over words at some prompts, and the distance between both sides there."""
    sides = [side[:, :, prompts].astype(float) for side in drawn.sides[:2]]
    within = [side[:, :, prompts].astype(float) for side in drawn.within]
    pairs = np.triu_indices(within[0].shape[0], 1)
    inner = [(1 - side[pairs]).mean(axis=(0, 1)) for side in within]
    apart = (1 - drawn.between[:, :, prompts].astype(float)).mean(axis=(0, 1, 2)) - sum(inner) / 2
    return word_test(*sides, None, within=within), apart
