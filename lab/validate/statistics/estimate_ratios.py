"""Coverage of how far an estimate depends on the word (``gep_ratio``), at the frequencies that Zhang et al. 2023 print.

Labels are of all images: 16 contexts of five a word, as in `lab.validate.statistics.contexts`. An estimate reads an
attribute's presence, plus what a context adds for both words and what it adds for one, plus normal noise of standard
deviation 1; in images of the first word it reads more. The truth is that of contexts without end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep.predictions import ratio_table
from lab.papers.gep_floors import CONTEXTS, SEEDS
from lab.validate.statistics.contexts import MEASURE, PAIR, audit_of, draw_images, published
from lab.validate.statistics.simulation import COLUMNS, covered_row

FREQUENCIES = "Stable Diffusion, explicit"
ONE, MEAN = "one attribute, Fieller's set", "mean of absolute ratios, debiased"


@dataclass(frozen=True)
class RatioWorld:
    """How far an estimate tells an attribute, how much more it reads of the first word, and what contexts add."""

    name: str
    apart: float
    word: float
    context: float = 0.3  # standard deviation of what a context adds to both words' estimates
    context_word: float = 0.0  # and to one word's


RATIO_WORLDS = (
    RatioWorld("tells well, no word", 2.0, 0.0),
    RatioWorld("tells well, half by word", 2.0, 1.0),
    RatioWorld("tells little, by word as much", 0.7, 0.7),
    RatioWorld("contexts differ by word", 2.0, 0.5, context_word=0.5),
)


def draw_estimate(
    world: RatioWorld, labels: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return what an estimate reads of labelled images, of the labels' shape."""
    contexts, words, _, attributes = labels.shape
    of_word = np.array([world.word, 0.0])[:, None, None]
    of_context = world.context * rng.standard_normal((contexts, 1, 1, attributes))
    of_both = world.context_word * rng.standard_normal((contexts, words, 1, attributes))
    reading = world.apart * labels + of_word * (0.5 + 0.5 * labels) + of_context + of_both
    return reading + rng.standard_normal(labels.shape)


def true_ratios(world: RatioWorld, frequency: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each attribute's ratio of expectations, from its words' frequencies.

    Half of what the word adds is read of images without the attribute too.
    """
    share_with = frequency[0] / frequency.sum(axis=0)  # of the first word, among images with the attribute
    share_without = (1 - frequency[0]) / (1 - frequency).sum(axis=0)
    return world.word / (world.apart + world.word * (share_with - 0.5 * share_without))


def ratio_coverage(*, simulations: int = 200, seed: int = 0) -> pd.DataFrame:
    """Return how often 95 % sets hold the ratio; one row per world and quantity."""
    frequency = dict(published())[FREQUENCIES]
    kept = ((frequency > 0.05) & (frequency < 0.95)).all(axis=0)
    frequency = frequency[:, kept]
    rows = []
    for number, world in enumerate(RATIO_WORLDS):
        rng = np.random.default_rng([seed, 1160 + number])
        truth = true_ratios(world, frequency)
        ends, means, wanted = [], [], []
        for _ in range(simulations):
            labels = audit_of(draw_images(frequency, CONTEXTS, SEEDS, rng))
            estimate = labels.with_values(draw_estimate(world, labels.values, rng), "C")
            table = ratio_table([labels, estimate], [(*PAIR, "contrast")], MEASURE)
            single, whole = table[table["attribute"] != ""], table[table["attribute"] == ""]
            ends.append(single[["low", "high"]].to_numpy())
            means.append(whole[["low", "high"]].to_numpy()[0])
            read = ~np.isnan(single["low"].to_numpy())
            wanted.append(np.abs(truth[read]).mean())
        low, high = np.stack(ends, axis=-1).swapaxes(0, 1)
        rows.append(covered_row(world.name, ONE, truth[:, None], (low, high)))
        low, high = np.array(means).T
        rows.append(covered_row(world.name, MEAN, np.array(wanted), (low, high)))
    return pd.DataFrame(rows, columns=list(COLUMNS))
