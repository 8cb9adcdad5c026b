"""Rejections of tests of objects over prompts that share their noise, where words mean the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.object_tests import paired_presence_test
from analysis.stats.table_tests import label_swap_test
from analysis.stats.worlds import table_of
from lab.validate.statistics.simulation import COLUMNS, rejection_row

PROMPTS, OBJECTS, FREQUENCY = 24, 20, 0.3
# seeds, and the variance that a noise with a word gives at all prompts alike
SHARED_DESIGNS = ((1, 0.0), (1, 0.1), (1, 0.3), (3, 0.1), (3, 0.3), (9, 0.3))
TESTS = ("one object, paired over prompts, mid-p", "20 objects, label swaps of prompts")


def shared_object_rejections(
    *, simulations: int = 500, permutations: int = 199, seed: int = 0
) -> pd.DataFrame:
    """Return how often objects are said to differ between two synonyms; one row per design and test."""
    rows = []
    for number, (seeds, shared) in enumerate(SHARED_DESIGNS):
        rng = np.random.default_rng([seed, 1140 + number])
        p_values: tuple[list, list] = ([], [])
        for one in range(simulations):
            present = _draw_presence(seeds, shared, rng).sum(axis=2)
            table = table_of(present, present, seeds)
            p_values[0].append(paired_presence_test(table, *table.indicators, mid_p=True).p_value)
            p_values[1].append(label_swap_test(table, permutations=permutations, seed=one).p_value)
        name = f"{seeds} seed{'s' * (seeds > 1)}, {100 * shared:.0f} %"
        rows.append(rejection_row(name, TESTS[0], False, np.concatenate(p_values[0])))
        rows.append(rejection_row(name, TESTS[1], False, np.array(p_values[1])))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _draw_presence(seeds: int, shared: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw whether objects are there, shape (objects, prompts, seeds, 2).

    A normal variable adds what the prompt gives (0.3 of the variance), what the noise gives to both words (0.2), what
    the noise gives to a word at all prompts, and a rest. `analysis.stats.worlds` has no noise that prompts share.
    """
    sizes = {0.3: (PROMPTS, 1, 1), 0.2: (1, seeds, 1)}
    parts = [*sizes.items(), (shared, (1, seeds, 2)), (0.5 - shared, (PROMPTS, seeds, 2))]
    latent = sum(np.sqrt(variance) * rng.standard_normal((OBJECTS, *size)) for variance, size in parts)
    return latent < special.ndtri(FREQUENCY)
