"""Error rates of the tests and coverage of the intervals, in `lab.validate.statistics.worlds`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.bootstrap import bootstrap_interval, equivalence_test, prompt_means
from analysis.stats.object_tests import bias_scores, presence_differences
from analysis.stats.permutation import sign_flip_test
from analysis.stats.table_tests import chi_square_test, label_swap_test
from lab.validate.statistics.object_worlds import ObjectWorld, draw_table
from lab.validate.statistics.worlds import COVERAGE_WORLDS, GAP_WORLDS, OBJECT_WORLDS, draw_gaps

ALPHA = 0.05
COLUMNS = ("world", "test", "exact", "rate", "simulations", "undefined")


def object_rejections(
    worlds: tuple[ObjectWorld, ...] = OBJECT_WORLDS, *, objects: int = 4000, tables: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Return how often each test of objects rejects at 5 % where there is no difference; one row per world and test."""
    rows = []
    for number, world in enumerate(worlds):
        rng = np.random.default_rng([seed, number])
        table = draw_table(world, objects, rng)
        pair = ("feminine", "masculine")
        exact = presence_differences(table, *pair).p_value
        rows.append(rejection_row(world.name, "paired exact (McNemar)", True, exact))
        p_values = {"label swaps, table": [], "label swaps, detections": []}
        paper = []
        for _ in range(tables):
            table = draw_table(world, 20, rng)
            drawn = int(rng.integers(2**31))
            swaps = counted = label_swap_test(table, permutations=199, seed=drawn)
            if world.repeats:
                counted = label_swap_test(table, of="detections", permutations=199, seed=drawn)
            for name, test in zip(p_values, (swaps, counted)):
                p_values[name].append(test.p_value)
            paper.append(chi_square_test(table, of="detections").p_value)
        rows += [rejection_row(world.name, name, True, np.array(p)) for name, p in p_values.items()]
        rows.append(rejection_row(world.name, "chi-square of detections (paper)", False, np.array(paper)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def gap_rejections(
    *, simulations: int = 4000, families: int = 500, sizes: tuple[int, ...] = (24, 100), seed: int = 0
) -> pd.DataFrame:
    """Return how often each test of a gap rejects at 5 % where the mean gap is 0, or at the bound of equivalence."""
    rows = []
    for number, (name, n) in enumerate((name, n) for name in GAP_WORLDS for n in sizes):
        rng = np.random.default_rng([seed, 100 + number])
        values = prompt_means(draw_gaps(name, n, simulations, rng))
        world = f"{name}, {n} prompts"
        flips = sign_flip_test(values, permutations=999, seed=number)
        rows.append(rejection_row(world, "sign flips", False, flips.p_value))
        bound = 0.8
        interval = bootstrap_interval(values, resamples=999, seed=number)
        outside = np.where((interval.low > 0) | (interval.high < 0), 0.0, 1.0)
        rows.append(rejection_row(world, "the envelope interval leaves out 0", True, outside))
        reach = np.abs(values + bound).max(axis=0)  # as far as any prompt of the column differs
        p_value = equivalence_test(values + bound, bound, reach=reach, resamples=999, seed=number)
        rows.append(rejection_row(world, "equivalence at its bound", True, p_value))
        smallest = []
        for family in range(families):
            common = draw_gaps(name, n, 1, rng)
            correlated = prompt_means(0.7 * common + 0.7 * draw_gaps(name, n, 30, rng))
            test = sign_flip_test(correlated, permutations=199, seed=family)
            smallest.append(test.p_adjusted.min())
        rows.append(rejection_row(world, "max-T, any of 30", False, np.array(smallest)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def gap_coverage(
    *, simulations: int = 2000, sizes: tuple[int, ...] = (8, 24, 200), resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Return how often 95 % intervals of a gap cover it."""
    rows = []
    shift = 0.5
    for number, (name, n) in enumerate((name, n) for name in GAP_WORLDS for n in sizes):
        rng = np.random.default_rng([seed, 200 + number])
        values = prompt_means(draw_gaps(name, n, simulations, rng)) + shift
        world = f"{name}, {n} prompts"
        result = bootstrap_interval(values, resamples=resamples, seed=number)
        rows.append(covered_row(world, "mean, envelope", shift, result))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def object_coverage(
    worlds: tuple[ObjectWorld, ...] = COVERAGE_WORLDS,
    *,
    objects: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often 95 % intervals of objects cover the truth, with masculine 1.5 times as frequent as feminine."""
    rows, pair = [], ("feminine", "masculine")
    for number, world in enumerate(worlds):
        rng = np.random.default_rng([seed, 300 + number])
        table = draw_table(world, objects, rng, shift=(1.0, 1.5))
        result = bias_scores(table, *pair)
        rows.append(covered_row(world.name, "bias score of presence, wilson", 0.6, result))
        if world.repeats:
            result = bias_scores(table, *pair, of="detections")
            rows.append(covered_row(world.name, "bias score of detections, wilson", 0.6, result))
        result = presence_differences(table, *pair)
        rows.append(
            covered_row(world.name, "difference of presence, adjusted", 0.5 * world.frequency, result)
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def rejection_row(world: str, test: str, exact: bool, p_value: NDArray[np.float64]) -> tuple:
    """Share of the p-values at most 5 %, NaN where there is none; an undefined one is no rejection."""
    share = float((p_value <= ALPHA).mean()) if len(p_value) else np.nan
    return world, test, exact, share, len(p_value), int(np.isnan(p_value).sum())


def covered_row(world: str, name: str, truth: float | NDArray[np.float64], result) -> tuple:
    """Part of the intervals that hold the truth, of those that are defined."""
    low, high = result if isinstance(result, tuple) else (result.low, result.high)
    defined = ~(np.isnan(low) | np.isnan(high))
    inside = (low <= truth) & (truth <= high)
    rate = float(inside[defined].mean()) if defined.any() else float("nan")
    return world, name, False, rate, int(defined.sum()), int((~defined).sum())


def misses(table: pd.DataFrame, low: float, high: float) -> Iterator[tuple]:
    """Rows whose rate lies outside [low, high]; exact and conservative tests may lie below."""
    for row in table.itertuples():
        if not (row.rate <= high and (row.exact or row.rate >= low)):
            yield row
