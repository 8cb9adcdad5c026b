"""One prompt, many seeds: do tests and intervals over seeds keep their level, for that prompt (Wu et al. 2025, 7.1)?

A run of one prompt and several seeds takes the seeds for its sample (`probes.config.schema.Config.unit`). In the worlds
here an image is a vector: what the seed's noise gives, which the members of a triplet share, what the prompt with the
word means, and a rest; similarity is the cosine, so that gaps are skewed and bounded as those of a run are. A prompt
has its meanings for good, and its truth is the mean over seeds without end: an interval over seeds is compared with
that, and for comparison against the mean of all prompts of the world, of which it says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.bias_scores import bias_scores, presence_differences
from analysis.stats.effects import student_interval
from analysis.stats.intervals import bootstrap_interval
from analysis.stats.object_tests import cochran_mantel_haenszel, paired_presence_test
from analysis.stats.sign_flips import sign_flip_test
from analysis.stats.table_tests import label_swap_test
from analysis.stats.worlds import ObjectWorld, draw_table
from lab.validate.statistics.simulation import COLUMNS, covered_row, rejection_row

DIMENSIONS = 16
PROMPTS = 20  # of a world, each simulated equally often
_TRUTH = 50  # times as many seeds as simulations stand for all: 100,000 on the page
SIZES = (24, 100, 1000)


@dataclass(frozen=True)
class SeedWorld:
    """Model of the images of one prompt.

    Attributes
    ----------
    name : str
    noise, meaning, rest : float
        Length of what the seed gives, of what prompt and word mean, and of what is the image's alone.
    lean : float
        How far the neutral word's meaning stands from the middle of the others towards the masculine one's, as a share.
    changed : float
        Probability that the image of a word is another one altogether.
    """

    name: str
    noise: float
    meaning: float
    rest: float
    lean: float = 0.0
    changed: float = 0.0


EXCHANGEABLE = (
    SeedWorld("the noise decides", noise=1.0, meaning=0.0, rest=0.5),
    SeedWorld("the rest decides", noise=0.3, meaning=0.0, rest=1.0),
    SeedWorld("one image in 20 is another", noise=1.0, meaning=0.0, rest=0.2, changed=0.05),
)
LEANING = (
    SeedWorld("words mean little", noise=1.0, meaning=0.3, rest=0.5, lean=0.5),
    SeedWorld("words mean much", noise=0.5, meaning=1.0, rest=0.3, lean=0.5),
    SeedWorld("one image in 20 is another", noise=1.0, meaning=0.3, rest=0.2, lean=0.5, changed=0.05),
)
OBJECT_WORLDS = (
    ObjectWorld("independent images", n_prompts=100, n_seeds=1),
    ObjectWorld("shared noise", noise=0.6, n_prompts=100, n_seeds=1),
    ObjectWorld("shared noise, 1,000 seeds", noise=0.6, n_prompts=1000, n_seeds=1),
)


def draw_meanings(world: SeedWorld, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return what a prompt means with each word, ``(3, DIMENSIONS)``: neutral, feminine, masculine."""
    feminine, masculine = world.meaning * _vectors((2,), rng)
    middle = (feminine + masculine) / 2
    return np.stack([middle + world.lean * (masculine - feminine) / 2, feminine, masculine])


def draw_seed_gaps(
    world: SeedWorld, meanings: NDArray[np.float64], shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Gaps s(neutral, masculine) - s(neutral, feminine) of a prompt, a number for each of so many seeds."""
    noise = world.noise * _vectors(shape, rng)
    images = []
    for meaning in meanings:
        image = noise + meaning + world.rest * _vectors(shape, rng)
        if world.changed:
            other = rng.random(shape) < world.changed
            image[other] = _vectors((int(other.sum()),), rng)
        images.append(image / np.linalg.norm(image, axis=-1, keepdims=True))
    neutral, feminine, masculine = images
    return np.einsum("...d,...d", neutral, masculine - feminine)


def _vectors(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Normal vectors whose length is 1 in the mean square."""
    return rng.standard_normal((*shape, DIMENSIONS)) / np.sqrt(DIMENSIONS)


def seed_rejections(
    *, simulations: int = 2000, sizes: tuple[int, ...] = SIZES, tables: int = 400, seed: int = 0
) -> pd.DataFrame:
    """Return how often tests over the seeds of one prompt reject at 5 % where its words make no difference."""
    rows = []
    for number, (world, n) in enumerate((world, n) for world in EXCHANGEABLE for n in sizes):
        rng = np.random.default_rng([seed, 900 + number])
        meanings, each = (
            draw_meanings(world, rng),
            -(-simulations // PROMPTS),
        )  # by pieces, for want of memory
        values = np.hstack([draw_seed_gaps(world, meanings, (n, each), rng) for _ in range(PROMPTS)])
        name = f"{world.name}, {n:,} seeds"
        flips = sign_flip_test(values, permutations=999, seed=number)
        rows.append(rejection_row(name, "sign flips", False, flips.p_value))
        interval = bootstrap_interval(values, method="envelope", resamples=999, seed=number)
        outside = np.where((interval.low > 0) | (interval.high < 0), 0.0, 1.0)
        rows.append(rejection_row(name, "the envelope interval leaves out 0", True, outside))
        rows.append(rejection_row(name, "Student's t", False, stats.ttest_1samp(values, 0).pvalue))
    pair = ("feminine", "masculine")
    for number, objects in enumerate(OBJECT_WORLDS):
        rng = np.random.default_rng([seed, 940 + number])
        table, name = draw_table(objects, simulations, rng), f"objects: {objects.name}"
        mid = paired_presence_test(table, *pair, mid_p=True).p_value
        strata = cochran_mantel_haenszel(table, *pair).p_value_prompts
        rows.append(rejection_row(name, "paired, mid-p", True, mid))
        rows.append(rejection_row(name, "Cochran–Mantel–Haenszel over seeds", True, strata))
        swaps = [
            label_swap_test(
                draw_table(objects, 20, rng), permutations=199, seed=int(rng.integers(2**31))
            ).p_value
            for _ in range(tables)
        ]
        rows.append(rejection_row(name, "label swaps, table", True, np.array(swaps)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def seed_coverage(
    *, simulations: int = 2000, sizes: tuple[int, ...] = SIZES, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Return how often 95 % intervals over the seeds of one prompt cover what is true of it."""
    rows = []
    each = max(1, simulations // PROMPTS)
    for number, world in enumerate(LEANING):
        rng = np.random.default_rng([seed, 960 + number])
        meanings = [draw_meanings(world, rng) for _ in range(PROMPTS)]
        without_end = (_TRUTH * simulations,)
        truths = np.array([draw_seed_gaps(world, one, without_end, rng).mean() for one in meanings])
        truth = np.repeat(truths, each)
        for n in sizes:
            values = np.hstack([draw_seed_gaps(world, one, (n, each), rng) for one in meanings])
            name = f"{world.name}, {n:,} seeds"
            interval = bootstrap_interval(values, method="envelope", resamples=resamples, seed=number)
            rows.append(covered_row(name, "mean gap, envelope", truth, interval))
            rows.append(covered_row(name, "mean gap, Student's t", truth, student_interval(values)))
            rows.append(covered_row(name, "mean gap of all prompts, envelope", truths.mean(), interval))
    for number, objects in enumerate(OBJECT_WORLDS):
        rng = np.random.default_rng([seed, 980 + number])
        table = draw_table(objects, simulations, rng, shift=(1.0, 1.5))
        pair, options, name = ("feminine", "masculine"), {"seed": seed}, f"objects: {objects.name}"
        score = bias_scores(table, *pair, method="wilson", **options)
        rows.append(covered_row(name, "bias score of presence, wilson", 0.6, score))
        difference = presence_differences(table, *pair, method="adjusted", **options)
        rows.append(
            covered_row(name, "difference of presence, adjusted", 0.5 * objects.frequency, difference)
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))
