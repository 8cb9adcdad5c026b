"""Coverage of intervals and level of equivalence tests where few prompts change or share their noise.

In a world of rare changes a word changes the image of a prompt with a small probability, by a length of about 1, and
otherwise by next to nothing. With a noise that is shared, all prompts of a seed lean together.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.bootstrap import (
    bootstrap_interval,
    effective_prompts,
    equivalence_test,
    gap_cautions,
)
from analysis.stats.crossed import crossed_mean
from analysis.stats.permutation import sign_flip_test
from lab.validate.statistics.simulation import COLUMNS, rejection_row

SHARES = (0.01, 0.02, 0.05, 0.1)
NOISE = 0.01  # of a prompt that does not change, in units of a change
SEED_SHARES = (0.0, 0.2, 0.5)


def draw_changes(
    share: float,
    n_prompts: int,
    n_words: int,
    columns: int,
    rng: np.random.Generator,
    *,
    lognormal: bool = False,
) -> NDArray[np.float64]:
    """Distances of words from the reference, shape (n_words, n_prompts, columns); each changes prompts by itself."""
    shape = (n_words, n_prompts, columns)
    length = rng.lognormal(-0.125, 0.5, shape) if lognormal else 1.0  # of mean 1
    return (rng.random(shape) < share) * length + NOISE * rng.standard_normal(shape)


def rare_equivalence(
    *,
    shares: tuple[float, ...] = SHARES,
    prompts: tuple[int, ...] = (24, 100),
    simulations: int = 2000,
    resamples: int = 999,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often a mean gap is called too small, where few prompts change; a row per world and test."""
    rows = []
    for number, (share, n) in enumerate((share, n) for share in shares for n in prompts):
        rng = np.random.default_rng([seed, 600 + number])
        for lognormal in (False, True):
            name = f"{100 * share:g} % change{', lognormal' * lognormal}, {n} prompts"
            distance = draw_changes(share, n, 8, simulations, rng, lognormal=lognormal)
            # the second word never changes
            gap = distance[0] - (distance[1] - (distance[1] > 0.1) * distance[1])
            for test, reach in (
                ("equivalence at its bound, reach of 9 words", np.abs(distance).max(axis=(0, 1))),
                ("equivalence at its bound, reach of 3 words", np.abs(distance[:2]).max(axis=(0, 1))),
            ):
                p_value = equivalence_test(gap, share, reach=reach, resamples=resamples, seed=number)
                rows.append(rejection_row(name, test, True, p_value))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def draw_shared(
    share: float, n_prompts: int, n_seeds: int, columns: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Differences of mean 0, shape (n_prompts, n_seeds, columns); prompts of a seed share `share` of the variance."""
    prompt = np.sqrt(0.3) * rng.standard_normal((n_prompts, 1, columns))
    seeds = np.sqrt(share) * rng.standard_normal((1, n_seeds, columns))
    rest = np.sqrt(0.7 - share) * rng.standard_normal((n_prompts, n_seeds, columns))
    return prompt + seeds + rest


def shared_noise_rejections(
    *,
    shares: tuple[float, ...] = SEED_SHARES,
    seeds: tuple[int, ...] = (2, 3, 4, 8),
    n_prompts: int = 24,
    simulations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often a mean gap of 0 is rejected where prompts share their noise; one row per world and test."""
    rows = []
    for number, (share, n_seeds) in enumerate((share, n) for share in shares for n in seeds):
        rng = np.random.default_rng([seed, 800 + number])
        values = draw_shared(share, n_prompts, n_seeds, simulations, rng)
        world = f"seeds share {share:g}, {n_seeds} seeds"
        rows.append(rejection_row(world, "prompts and seeds crossed", True, crossed_mean(values).p_value))
    return pd.DataFrame(rows, columns=list(COLUMNS))


DESIGN_WORLDS = (
    "normal",
    "skewed (exponential)",
    "lognormal",
    "5 % change, either way",
    "5 % change, one way",
)


def draw_design(name: str, n_prompts: int, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Differences of mean 0 of one seed, shape (n_prompts, columns)."""
    shape = (n_prompts, columns)
    if name == "normal":
        return rng.standard_normal(shape)
    if name == "skewed (exponential)":
        return rng.exponential(1, shape) - 1
    if name == "lognormal":
        return rng.lognormal(0, 1, shape) - np.exp(0.5)
    changed = (rng.random(shape) < 0.05) + NOISE * rng.standard_normal(shape)
    if name.endswith("either way"):
        return changed * rng.choice([-1.0, 1.0], shape)
    return changed - 0.05


def design_gaps(
    *, n_prompts: int = 24, simulations: int = 2000, resamples: int = 999, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rejections of a mean gap of 0, and coverage, with one seed; with those that carry no caution apart."""
    rejected, covered = [], []
    for number, name in enumerate(DESIGN_WORLDS):
        rng = np.random.default_rng([seed, 1000 + number])
        values = draw_design(name, n_prompts, simulations, rng)
        flips = sign_flip_test(values, permutations=499, seed=number).p_value
        interval = bootstrap_interval(values, resamples=resamples, seed=number)
        caution = gap_cautions(values, effective_prompts(values))
        silent = caution == ""
        outside = np.where((interval.low > 0) | (interval.high < 0), 0.0, 1.0)
        rejected += [
            rejection_row(name, "sign flips", False, flips),
            rejection_row(name, "the interval leaves out 0", True, outside),
            rejection_row(
                name, "the interval leaves out 0 without a warning", True, np.where(silent, outside, 1.0)
            ),
            rejection_row(name, "a warning is shown", True, np.where(silent, 1.0, 0.0)),
        ]
        covered.append((name, "mean, envelope", False, float(outside.mean()), simulations, 0))
    return tuple(pd.DataFrame(rows, columns=list(COLUMNS)) for rows in (rejected, covered))
