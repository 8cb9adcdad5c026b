"""Coverage of shares that are set right for a reader that confuses kinds of images, or leaves some undecided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.reader_correction import corrected_shares
from lab.validate.statistics.simulation import COLUMNS, covered_row

Rates = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class ReaderWorld:
    """Probabilities of *yes*, *no* and neither, of images that are and of those that are not."""

    name: str
    rates: Rates


READER_WORLDS = (
    ReaderWorld("undecided by chance", ((0.9, 0.05, 0.05), (0.08, 0.87, 0.05))),
    ReaderWorld("those that are left undecided", ((0.55, 0.05, 0.40), (0.05, 0.92, 0.03))),
    ReaderWorld("those that are not left undecided", ((0.9, 0.05, 0.05), (0.05, 0.5, 0.45))),
)
TRUTHS, IMAGES, LABELLED = (0.1, 0.5), (9, 60), 150


def draw_answers(
    world: ReaderWorld, truth: float, images: int, samples: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw answers to images, shape (samples, 3), and to `LABELLED` labelled ones of each kind, (samples, 2, 3)."""
    there = rng.binomial(images, truth, samples)
    answers = np.array(
        [rng.multinomial(k, world.rates[0]) + rng.multinomial(images - k, world.rates[1]) for k in there]
    )
    return answers, np.stack([rng.multinomial(LABELLED, rates, samples) for rates in world.rates], axis=1)


def reader_coverage(*, simulations: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return how often 95 % intervals of a share cover it; one row per world, size and interval."""
    rows = []
    places = [(world, truth, images) for world in READER_WORLDS for truth in TRUTHS for images in IMAGES]
    for number, (world, truth, images) in enumerate(places):
        rng = np.random.default_rng([seed, 950 + number])
        answers, labels = draw_answers(world, truth, images, simulations, rng)
        name = f"{world.name}, share {truth:g}, {images} images"
        rows.append(covered_row(name, "three answers", truth, corrected_shares(answers, labels)))
        decided, of_decided = answers.copy(), labels.copy()
        decided[:, 2], of_decided[..., 2] = 0, 0
        found = corrected_shares(decided, of_decided)
        rows.append(covered_row(name, "the undecided left out", truth, found))
    return pd.DataFrame(rows, columns=list(COLUMNS))
