"""Coverage of a lean between the readings of two words, behind a reader that errs by prompt."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.effects import effect_sizes
from analysis.stats.equivalence import equivalence_test
from analysis.stats.shares_between import shares_between
from lab.validate.statistics.simulation import COLUMNS, covered_row, rejection_row

SEES, INVENTS = 0.86, 0.08  # what the checker reads of toyworld's explicit words
SPREAD = 0.6  # of the log-odds of prompts: how much is seen and invented, and the share itself
IMAGES = 4
SHARES = (0.5, 0.7, 0.95)
SIZES = (60, 240)
MARGIN = 0.05


def draw_readings(
    share: float, prompts: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Shares of a prompt's images that the reader says yes to: of the word in question, of none and of all, each
    ``(prompts,)``.
    """
    shift = SPREAD * rng.standard_normal((prompts, 1))
    s, f = (special.expit(special.logit(one) + shift) for one in (SEES, INVENTS))
    own = special.expit(special.logit(share) + SPREAD * rng.standard_normal((prompts, 1)))
    own *= share / _mean_share(share)
    p = np.where(rng.random((prompts, IMAGES)) < own, s, f)
    said, none, all_of = ((rng.random((prompts, IMAGES)) < one).mean(axis=1) for one in (p, f, s))
    return said, none, all_of


def _mean_share(share: float) -> float:
    """Mean of the shares of prompts before they are set to the one asked for (Gauss–Hermite)."""
    x, weights = np.polynomial.hermite_e.hermegauss(40)
    return float(special.expit(special.logit(share) + SPREAD * x) @ weights / weights.sum())


def reading_coverage(*, simulations: int = 2000, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Return how often 95 % intervals of the corrected and the raw reading cover the share."""
    rows = []
    for number, (n, share) in enumerate((n, share) for n in SIZES for share in SHARES):
        corrected, raw = _drawn(share, n, simulations, np.random.default_rng([seed, 1200 + number]))
        world = f"share {share:g}, {n} prompts"
        for name, values in (("between the words' readings", corrected), ("raw reading", raw)):
            found = effect_sizes(values, resamples=resamples, seed=number)
            rows.append(covered_row(world, name, share, (found.mean_low, found.mean_high)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def reading_claims(*, simulations: int = 2000, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Return how often "within ½ ± 0.05" is claimed of a share that is at the bound."""
    rows = []
    for number, n in enumerate(SIZES):
        rng = np.random.default_rng([seed, 1250 + number])
        corrected, raw = _drawn(0.5 + MARGIN, n, simulations, rng)
        for name, values in (("between the words' readings", corrected), ("raw reading", raw)):
            claimed = equivalence_test(
                values - 0.5, MARGIN, method="envelope", resamples=resamples, seed=number
            )
            rows.append(rejection_row(f"share 0.55, {n} prompts", name, True, claimed.p_value))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _drawn(
    share: float, prompts: int, simulations: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of prompts of the corrected and the raw reading, each (prompts, simulations)."""
    drawn = [draw_readings(share, prompts, rng) for _ in range(simulations)]
    corrected = np.stack([shares_between(*one).values for one in drawn], axis=1)
    return corrected, np.stack([said for said, _, _ in drawn], axis=1)
