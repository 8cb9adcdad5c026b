"""Sweeps over worlds of gaps: tests of a mean gap, its intervals, equivalence, the test against words, shares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from analysis.stats.bootstrap import (
    bootstrap_interval,
    effective_prompts,
    equivalence_test,
    gap_cautions,
    prompt_means,
)
from analysis.stats.crossed import crossed_mean
from analysis.stats.permutation import sign_flip_test
from analysis.stats.word_test import word_test
from lab.validate.statistics.rates import AT_MOST, POWER, covered_row, rejection_row, sweep
from lab.validate.statistics.worlds import (
    DIFFERENCES,
    HOSTILE,
    LEANING,
    ODD,
    ODD_LEANING,
    PICTURES,
    PICTURES_LEANING,
    WORDS,
    DrawnWords,
    Floats,
    GapWorld,
    WordWorld,
    draw_changes,
    draw_shared,
    draw_words,
)

THREE = tuple(DIFFERENCES)[:3]
DESIGN = ("normal", "skewed (exponential)", "lognormal", "5 % change, either way", "5 % change, one way")


def _outside(values: Floats, resamples: int, seed: int) -> Floats:
    """0 where the interval of a mean leaves out 0, else 1."""
    interval = bootstrap_interval(values, resamples=resamples, seed=seed)
    return np.where((interval.low > 0) | (interval.high < 0), 0.0, 1.0)


def gap_rejections(simulations: int = 4000, seed: int = 0) -> pd.DataFrame:
    """How often each test of a gap rejects where the mean gap is 0, or at the bound of equivalence; three seeds."""
    bound, families = 0.8, max(2, simulations * 3 // 20)

    def rows(case: tuple[str, int], rng: np.random.Generator, number: int) -> Iterator[tuple]:
        (kind, n), world = case, f"{case[0]}, {case[1]} prompts"
        gaps = GapWorld(kind, seeds=0.5)
        values = prompt_means(gaps.draw(n, simulations, rng, n_seeds=3))
        yield rejection_row(
            world, "sign flips", sign_flip_test(values, permutations=999, seed=number).p_value
        )
        yield rejection_row(
            world, "the envelope interval leaves out 0", _outside(values, 999, number), AT_MOST
        )
        reach = np.abs(values + bound).max(axis=0)  # as far as any prompt of the column differs
        p_value = equivalence_test(values + bound, bound, reach=reach, resamples=999, seed=number)
        yield rejection_row(world, "equivalence at its bound", p_value, AT_MOST)
        smallest = []
        for family in range(families):
            common = gaps.draw(n, 1, rng, n_seeds=3)
            correlated = prompt_means(0.7 * common + 0.7 * gaps.draw(n, 30, rng, n_seeds=3))
            smallest.append(sign_flip_test(correlated, permutations=199, seed=family).p_adjusted.min())
        yield rejection_row(world, "max-T, any of 30", smallest)

    return sweep(product(THREE, (24, 100)), rows, 100, seed)


def gap_coverage(simulations: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How often 95 % intervals of a mean gap of ½ cover it; three seeds a prompt."""

    def rows(case: tuple[str, int], rng: np.random.Generator, number: int) -> Iterator[tuple]:
        kind, n = case
        values = prompt_means(GapWorld(kind, seeds=0.5).draw(n, simulations, rng, n_seeds=3)) + 0.5
        ends = bootstrap_interval(values, resamples=1000, seed=number)
        yield covered_row(f"{kind}, {n} prompts", "the envelope interval covers", 0.5, ends)

    return sweep(product(THREE, (8, 24, 200)), rows, 200, seed)


def design_gaps(simulations: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Rejections of a mean gap of 0 at 24 prompts and one seed, with those that carry no warning apart."""

    def rows(kind: str, rng: np.random.Generator, number: int) -> Iterator[tuple]:
        values = GapWorld(kind).draw(24, simulations, rng)[:, 0]
        yield rejection_row(kind, "sign flips", sign_flip_test(values, permutations=499, seed=number).p_value)
        outside = _outside(values, 1000, number)
        silent = gap_cautions(values, effective_prompts(values)) == ""
        unsaid = np.where(silent, outside, 1.0)
        yield rejection_row(kind, "the interval leaves out 0", outside, AT_MOST)
        yield rejection_row(kind, "the interval leaves out 0 without a warning", unsaid, AT_MOST)
        yield rejection_row(kind, "a warning is shown", np.where(silent, 1.0, 0.0), POWER)

    return sweep(DESIGN, rows, 1000, seed)


Sizes = tuple[tuple[int, int, int], ...]  # words of the first side, of the second, of the reference


def word_rejections(
    worlds: tuple[WordWorld, ...],
    sizes: Sizes,
    stream: int,
    simulations: int,
    seed: int = 0,
    *,
    prompts: tuple[int, ...] = (24,),
) -> pd.DataFrame:
    """How often a gap is significant against words at 5 %, by words of both sides and of the reference."""

    def rows(case: tuple[WordWorld, int], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        world, n = case
        name = f"{world.name}, {n} prompts" if len(prompts) > 1 else world.name
        for first, second, references in sizes:
            others = 3 if first == second == 1 else 0  # stand in for words of the sides
            drawn = draw_words(world, (first, second, others), n, simulations, rng, references=references)
            test = f"{first} against {second}, {references} of the reference"
            yield rejection_row(name, test, drawn.tested(), POWER if world.lean else AT_MOST)

    return sweep(product(worlds, prompts), rows, stream, seed)


BASIC: Sizes = ((2, 2, 1), (3, 3, 1), (3, 3, 3), (5, 5, 1))
HOSTILE_SIZES: Sizes = (
    (1, 1, 3),
    (2, 2, 1),
    (2, 2, 2),
    (3, 3, 1),
    (3, 3, 2),
    (3, 3, 3),
    (2, 4, 3),
    (4, 2, 3),
)
ODD_SIZES: Sizes = ((2, 2, 3), (3, 3, 3), (5, 5, 3))
DEFAULT: Sizes = ((3, 3, 3),)


def words(simulations: int = 500, seed: int = 0) -> pd.DataFrame:
    """The test against words where nothing leans, at 24 and 100 prompts."""
    return word_rejections(WORDS, BASIC, 500, simulations, seed, prompts=(24, 100))


def words_leaning(simulations: int = 500, seed: int = 0) -> pd.DataFrame:
    """The same where the reference leans."""
    return word_rejections(LEANING, BASIC, 500, simulations, seed, prompts=(24, 100))


def words_hostile(simulations: int = 500, seed: int = 0) -> pd.DataFrame:
    """The same where reference words have parts of their own, or a side's words are odder."""
    return word_rejections(HOSTILE, HOSTILE_SIZES, 900, simulations, seed)


def words_odd(simulations: int = 1000, seed: int = 0) -> pd.DataFrame:
    """The same where the words of one side are odder or leave the noise, and where the reference leans beside that."""
    parts = (ODD, ODD_LEANING)
    return pd.concat([word_rejections(worlds, ODD_SIZES, 980, simulations, seed) for worlds in parts])


def words_pictures(simulations: int = 1000, seed: int = 0) -> pd.DataFrame:
    """The same where few images differ, as in runs, and where the reference leans beside that."""
    parts = (PICTURES, (LEANING[0], *PICTURES_LEANING))
    return pd.concat([word_rejections(worlds, DEFAULT, 1010, simulations, seed) for worlds in parts])


def rare_equivalence(simulations: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How often a mean gap is called too small at its bound, where few prompts change."""

    def rows(case: tuple[float, int], rng: np.random.Generator, number: int) -> Iterator[tuple]:
        share, n = case
        for lognormal in (False, True):
            name = f"{100 * share:g} % change{', lognormal' * lognormal}, {n} prompts"
            distance = draw_changes(share, n, 8, simulations, rng, lognormal=lognormal)
            gap = distance[0] - (distance[1] - (distance[1] > 0.1) * distance[1])  # the second never changes
            for seen, part in (("9", distance), ("3", distance[:2])):
                reach = np.abs(part).max(axis=(0, 1))
                p_value = equivalence_test(gap, share, reach=reach, resamples=1000, seed=number)
                yield rejection_row(
                    name, f"equivalence at its bound, reach of {seen} words", p_value, AT_MOST
                )

    return sweep(product((0.01, 0.02, 0.05, 0.1), (24, 100)), rows, 600, seed)


def shared_noise_rejections(simulations: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How often a mean gap of 0 is rejected where the prompts of a seed share their noise."""

    def rows(case: tuple[float, int], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        share, seeds = case
        p_value = crossed_mean(draw_shared(share, 24, seeds, simulations, rng)).p_value
        world = f"seeds share {share:g}, {seeds} seeds"
        yield rejection_row(world, "prompts and seeds crossed", p_value, AT_MOST)

    return sweep(product((0.0, 0.2, 0.5), (2, 3, 4, 8)), rows, 800, seed)


def _apart(name: str, meaning: float = 0.6, own: float = 0.2, rest: float = 0.3, **more: float) -> WordWorld:
    return WordWorld(name, meaning, own, rest, dimensions=48, **({"lean": 0.6, "reference": own} | more))


SIDES = (
    _apart("halfway", lean=0.0),
    _apart("lean .6"),
    _apart("lean 1", lean=1.0),
    _apart("lean .6, sides near each other", 0.2, 0.1, 0.2),
    _apart("lean .6, one side's words odder", second=0.5),
    *(
        _apart(name, 0.6, 0.05, 0.1, leaves=leaves, everyone=True)
        for name, leaves in (("lean .6, one image in ten another", 0.1), ("lean .6, each image another", 1.0))
    ),
)
PROMPTS, TRUE_PROMPTS, AT_ONCE = 24, 376, 200


def side_share_coverage(simulations: int = 500, seed: int = 0) -> pd.DataFrame:
    """How often 95 % intervals of a gap's share of the distance between the sides cover it.

    The share of two words is that of these words over all prompts: seen in `TRUE_PROMPTS` more. That of all words is
    of the words of such sides over all prompts: the mean gap of all columns by their mean distance.
    """

    def rows(world: WordWorld, rng: np.random.Generator, number: int) -> Iterator[tuple]:
        starts = range(0, simulations, AT_ONCE)
        sizes = [min(AT_ONCE, simulations - start) for start in starts]
        parts = (draw_words(world, (3, 3, 0), PROMPTS + TRUE_PROMPTS, n, rng, references=3) for n in sizes)
        found = [_side_shares(drawn, number) for drawn in parts]
        two, truth, several, gaps, distances = (
            np.concatenate(one, axis=-1) for one in zip(*found, strict=True)
        )
        of_words = gaps.mean() / distances.mean()
        yield covered_row(world.name, "two words, over prompts", truth, tuple(two))
        yield covered_row(world.name, "all words, over words and prompts", of_words, tuple(several))

    return sweep(SIDES, rows, 1100, seed)


def _side_shares(drawn: DrawnWords, seed: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Intervals of two words' share with the truth, intervals of all words, and all prompts' gaps and distances."""
    gap = (drawn.sides[0] - drawn.sides[1])[0, 0].astype(float)
    distance = 1 - drawn.between[0, 0].astype(float)
    found = bootstrap_interval(gap[:PROMPTS], resamples=500, seed=seed)
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
