"""The next triplets to label, given the labels so far: those that narrow the intervals most, drawn at random in strata.

The triplets and seeds without labels are cut into strata by how much labels of them are expected to add
(`analysis.studies.human_check.information`), and as many are drawn of each as narrow the intervals most. Every one can
be drawn, and the sheet says from which stratum it was, and how large that is: with these weights
(`analysis.studies.human_check.weights`) the rates stay those of the run, however far off the expectations are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.staged_sampling import cut_strata, neyman_allocation
from analysis.studies.human_check.check import questions_of
from analysis.studies.human_check.information import ExpectedSquares
from analysis.studies.human_check.labels import drawn_text
from analysis.studies.human_check.weights import LabelledUnits

STRATA = 5
LEAST = 0.25  # share of what all units are expected to add that each is


@dataclass(frozen=True)
class Draw:
    """Triplets and seeds of the next sheet.

    Attributes
    ----------
    chosen : ndarray of int64
        Places among all of the run.
    stratum : ndarray of int64, shape (n_units,)
        Of every triplet and seed without labels; −1 of the others.
    drawn : ndarray of int64, shape (n_strata,)
        How many of each stratum.
    """

    chosen: NDArray[np.int64]
    stratum: NDArray[np.int64]
    drawn: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Units of each stratum."""
        return np.bincount(self.stratum[self.stratum >= 0], minlength=len(self.drawn))


def draw_next(
    expected: ExpectedSquares,
    units: LabelledUnits,
    number: int,
    rng: np.random.Generator,
    *,
    strata: int = STRATA,
) -> Draw:
    """Draw triplets and seeds without labels: at random in strata of what they are expected to add.

    Parameters
    ----------
    expected : ExpectedSquares
    units : LabelledUnits
        Those with labels.
    number : int
        To draw; all that are left, where there are fewer.
    rng : Generator
    strata : int
        At most so many, of two or more draws each.
    """
    left = np.flatnonzero([unit not in units.place for unit in expected.units])
    stratum = np.full(len(expected.units), -1)
    if not len(left) or number < 1:
        return Draw(np.zeros(0, np.int64), stratum, np.zeros(0, np.int64))
    left = left[rng.permutation(len(left))]  # units of one spread are cut at random
    spread = expected.spread(LEAST)
    stratum[left] = cut_strata(spread[left], max(min(strata, number // 2), 1))
    sizes = np.bincount(stratum[left])
    means = np.bincount(stratum[left], spread[left]) / sizes
    drawn = neyman_allocation(sizes, means, number)
    chosen = [left[stratum[left] == h][:n] for h, n in enumerate(drawn)]  # the order is random
    return Draw(np.concatenate(chosen), stratum, drawn)


def next_questions(
    draws: pd.DataFrame,
    draw: Draw,
    samples: pd.DataFrame,
    nouns: pd.DataFrame,
    objects: pd.DataFrame,
    items: pd.DataFrame,
    units: LabelledUnits,
    *,
    indicators: Sequence[str],
    images: int,
    extra: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return the questions of the next sheet: what is left of triplets that were begun, then those drawn.

    Returns
    -------
    DataFrame
        As of `analysis.studies.human_check.check.choose_questions`, with ``drawn``
        (`analysis.studies.human_check.labels.drawn_text`).
    """
    sheet = units.sheets + 1
    chosen, sizes = draws.iloc[draw.chosen], draw.sizes
    texts = [drawn_text(sheet, h + 1, len(sizes), int(sizes[h])) for h in draw.stratum[draw.chosen]]
    asked = questions_of(chosen, nouns, objects, indicators, extra, rng)
    asked = asked.merge(chosen[["triplet", "seed"]].assign(drawn=texts), on=["triplet", "seed"])
    shown = samples[samples["indicator"].isin(list(indicators))][
        ["sample_id", "triplet", "seed", "indicator"]
    ]
    new = shown.merge(asked, on=["triplet", "seed"])
    begun = unfinished(samples, items, indicators)
    begun = begun[begun["sample_id"].isin(begun["sample_id"].drop_duplicates()[:images])]
    both = pd.concat([begun[new.columns], new])
    order = both["sample_id"].drop_duplicates()
    order = dict(zip(order.iloc[rng.permutation(len(order))], range(len(order))))
    return both.sort_values("sample_id", key=lambda ids: ids.map(order), kind="stable").reset_index(drop=True)


def unfinished(samples: pd.DataFrame, items: pd.DataFrame, indicators: Sequence[str]) -> pd.DataFrame:
    """Return the questions of images without labels whose triplet and seed have some: the same as in their others."""
    keys = ["sample_id", "triplet", "seed", "indicator"]
    own = samples[samples["indicator"].isin(list(indicators))][keys]
    asked = samples[keys[:3]].merge(items[["sample_id", "object", "drawn"]], on="sample_id")
    asked = asked.drop(columns="sample_id").drop_duplicates(["triplet", "seed", "object"])
    missing = own[~own["sample_id"].isin(items["sample_id"])]
    return missing.merge(asked, on=["triplet", "seed"])
