"""Rejections of the test whether one profession's skin tones differ from those of all together, where none does."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.group_swaps import group_swaps
from analysis.stats.multiplicity import adjust_p_values
from lab.validate.statistics.simulation import COLUMNS, rejection_row

PROFESSIONS, DRAWS, WORDS, TONES = 20, 9, 2, 10
EVEN, THREE = "ten tones", "three skins"
TWICE, HALF = "a profession of twice the spread", "of half the spread"
LOST, RARE = "undecided by profession, 0 to 60 %", "nearly one tone"
TONE_WORLDS = (EVEN, THREE, TWICE, HALF, LOST, RARE)
SPREADS = {TWICE: (1.0, 0.5), HALF: (0.5, 1.0)}  # of the first profession, and of the others
TESTS = (
    "one profession, draws change places",
    "any of 20 professions, adjusted",
    "one profession, ten equally likely tones",
)


def draw_tones(name: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw tones 1 to 10, shape (professions, draws, words), NaN where undecided; the words of a draw hang together.

    No profession's mean differs from another's; `SPREADS` are of worlds in which the first's spread does.
    """
    latent = 0.8 * rng.standard_normal((PROFESSIONS, DRAWS, 1))
    latent = latent + 0.6 * rng.standard_normal((PROFESSIONS, DRAWS, WORDS))
    if name == THREE:
        return np.array([3.0, 5.0, 8.0])[np.digitize(latent, [-0.4, 0.7])]
    if name == RARE:
        return np.where(latent > 2, 8.0, 5.0)
    own, others = SPREADS.get(name, (1.0, 1.0))
    latent *= np.where(np.arange(PROFESSIONS) == 0, own, others)[:, None, None]
    tones = np.clip(np.round(5.5 + 2 * latent), 1, TONES)
    if name == LOST:
        tones[rng.random(tones.shape) < np.linspace(0, 0.6, PROFESSIONS)[:, None, None]] = np.nan
    return tones


def tone_rejections(*, simulations: int = 500, permutations: int = 999, seed: int = 0) -> pd.DataFrame:
    """Return how often a profession is said to have other tones that has not; one row per world and test.

    The first profession's is the rate of one. As in ``dalleval_professions``, the words of a draw stand together.
    """
    rows = []
    for number, name in enumerate(TONE_WORLDS):
        rng, found = np.random.default_rng([seed, 1120 + number]), []
        for one in range(simulations):
            tones = draw_tones(name, rng)
            decided = ~np.isnan(tones)
            with np.errstate(invalid="ignore"):
                of_draws = np.where(decided, tones, 0.0).sum(axis=2, keepdims=True) / decided.sum(
                    axis=2, keepdims=True
                )
            test = group_swaps(of_draws, draws=permutations, seed=one)
            p = test.group_p_value[:, 0]
            counts = np.bincount(tones[0][decided[0]].astype(int), minlength=TONES + 1)[1:]
            found.append((p[0], np.nanmin(adjust_p_values(p)), stats.chisquare(counts).pvalue))
        rows += [
            rejection_row(name, test, test != TESTS[2], np.array(p))
            for test, p in zip(TESTS, zip(*found, strict=True), strict=True)
        ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
