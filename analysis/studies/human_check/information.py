"""How much labels of each triplet and seed would add to what is known of a detector's errors.

A rate's variance is a sum of squares over the triplets that are labelled, so that a triplet tells the more, the larger
its square is expected to be. It is large where the detector is likely to be wrong: where it did not find what the
prompt names, or what it found in another image of the triplet, and of objects on which it erred before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.rates import QUANTITIES
from analysis.studies.human_check.check import askable, other_questions
from analysis.studies.human_check.weights import unit_keys

PRIOR = 4.0  # labels that the rate of all objects of a kind counts for beside those of an object
KINDS = ("prompt", "found", "other")


@dataclass(frozen=True)
class ExpectedSquares:
    """What the labels of each triplet and seed of a run are expected to add.

    Attributes
    ----------
    units : ndarray of object (str), shape (n_units,)
        Keys of triplet and seed.
    figures : tuple of (str, str)
        Quantity and indicator, or contrast, whose intervals are to be narrow.
    squares : ndarray of float64, shape (n_units, n_figures)
        Expected square of what a unit adds to each.
    """

    units: NDArray[np.object_]
    figures: tuple[tuple[str, str], ...]
    squares: NDArray[np.float64]

    def spread(self, least: float) -> NDArray[np.float64]:
        """Root of the squares of all figures together, each with a mean of 1, of which `least` is that of all units."""
        means = self.squares.mean(axis=0)
        share = np.divide(self.squares, means, out=np.ones(self.squares.shape), where=means > 0).mean(axis=1)
        return np.sqrt((1 - least) * share + least)


def expected_squares(
    draws: pd.DataFrame,
    nouns: pd.DataFrame,
    objects: pd.DataFrame,
    items: pd.DataFrame,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]],
    extra: int,
) -> ExpectedSquares:
    """Return what labels of each triplet and seed would add to recall and precision of all objects.

    Parameters
    ----------
    draws : DataFrame
        ``triplet`` and ``seed`` of the run.
    nouns, objects : DataFrame
        See `analysis.studies.human_check.check.choose_questions`.
    items : DataFrame
        Of `analysis.studies.human_check.check.labelled_items`: the labels so far.
    indicators : sequence of str
        Those whose images are shown.
    contrasts : sequence of (str, str)
        Whose differences are to be known; without any among `indicators`, the rates of all of these.
    extra : int
        Objects to ask for beside the nouns of the prompts.
    """
    cells = _cells(draws, nouns, objects, list(indicators), extra)
    there = _presence(cells, items)
    pairs = [(a, b) for a, b in contrasts if {a, b} <= set(indicators)]
    count, group = len(draws), pd.Index(list(indicators)).get_indexer(cells["indicator"])
    share, detected = cells["share"].to_numpy(), cells["detected"].to_numpy(float)
    place = cells["number"].to_numpy(), group
    figures, squares = [], []
    for quantity in QUANTITIES:
        of = there if quantity == "recall" else detected
        totals = _sums(place, share * of, (count, len(indicators)))
        hits = _sums(place, share * there * detected, totals.shape)
        rate = hits.sum(axis=0) / np.maximum(totals.sum(axis=0), 1e-9)
        own = rate[group]
        # what an answer adds where the object is there, and where it is not
        yes, no = (
            (detected - own, 0.0 * own) if quantity == "recall" else (detected * (1 - own), -detected * own)
        )
        mean = _sums(place, share * (there * yes + (1 - there) * no), totals.shape)
        variance = _sums(place, share * there * (1 - there) * (yes - no) ** 2, totals.shape)
        scale = np.maximum(totals.sum(axis=0), 1e-9)
        mean, variance = mean / scale, variance / scale**2
        for first, second in pairs:
            a, b = (list(indicators).index(name) for name in (first, second))
            figures.append((quantity, f"{first}-{second}"))
            squares.append((mean[:, a] - mean[:, b]) ** 2 + variance[:, a] + variance[:, b])
        if not pairs:
            figures.append((quantity, "all"))
            squares.append(mean.sum(axis=1) ** 2 + variance.sum(axis=1))
    return ExpectedSquares(np.array(unit_keys(draws), dtype=object), tuple(figures), np.column_stack(squares))


def _sums(place: tuple[NDArray, NDArray], values: NDArray, shape: tuple[int, int]) -> NDArray[np.float64]:
    sums = np.zeros(shape)
    np.add.at(sums, place, values)
    return sums


def _cells(draws, nouns, objects, names, extra) -> pd.DataFrame:
    """One row per image and object that may be asked for, with how likely it is asked (``share``).

    Objects that were found in no image of a triplet and seed are one row per image, with their number as its share.
    """
    mentioned, found = askable(nouns, objects, names)
    everything = len({*mentioned["ask"], *found["ask"]})
    draws = draws[["triplet", "seed"]].assign(number=np.arange(len(draws)))
    of_prompt = draws.merge(mentioned[["triplet", "ask"]].drop_duplicates(), on="triplet")[["number", "ask"]]
    seen = draws.merge(
        found[["triplet", "seed", "indicator", "ask"]].drop_duplicates(), on=["triplet", "seed"]
    )
    near = seen[["number", "ask"]].drop_duplicates().merge(of_prompt, how="left", indicator=True)
    near = near.loc[near["_merge"] == "left_only", ["number", "ask"]]
    found_count = np.bincount(near["number"], minlength=len(draws))
    rest = everything - found_count - np.bincount(of_prompt["number"], minlength=len(draws))
    others = np.array([other_questions(int(n), int(r), extra) for n, r in zip(found_count, rest)])
    share = np.clip((extra - others) / np.maximum(found_count, 1), 0.0, 1.0)
    nowhere = pd.DataFrame({"number": draws["number"], "ask": "", "share": others, "kind": "other"})
    asked = pd.concat(
        [
            of_prompt.assign(share=1.0, kind="prompt"),
            near.assign(share=share[near["number"]], kind="found"),
            nowhere[nowhere["share"] > 0].astype({"share": float}),
        ]
    )
    cells = asked.merge(pd.DataFrame({"indicator": names}), how="cross")
    keys = ["number", "indicator", "ask"]
    cells = cells.merge(seen[keys].assign(detected=True), on=keys, how="left")
    return cells.assign(detected=cells["detected"].notna())


def _presence(cells: pd.DataFrame, items: pd.DataFrame) -> NDArray[np.float64]:
    """Return how likely each object is there, by the labels so far: as of its kind, indicator and own name.

    No rate is 0 or 1: each is drawn to that of the next wider class.
    """
    clear = items[items["present"] != "unclear"]
    labels = pd.DataFrame(
        {
            "there": (clear["present"] == "yes").astype(float),
            "detected": clear["detected"].astype(bool),
            "kind": clear["asked"],
            "indicator": clear["indicator"],
            "ask": clear["object"],
        }
    )
    rate = np.full(len(cells), 0.5)
    weight, keys = 2.0, ["detected"]
    for wider in ("kind", "indicator", "ask"):
        rate = _drawn_to(rate, weight, labels, cells, keys)
        weight, keys = PRIOR, [*keys, wider]
    return _drawn_to(rate, weight, labels, cells, keys)


def _drawn_to(
    wider: NDArray, weight: float, labels: pd.DataFrame, cells: pd.DataFrame, keys: list[str]
) -> NDArray:
    counts = labels.groupby(keys)["there"].agg(["sum", "size"]).reset_index()
    own = cells[keys].merge(counts, on=keys, how="left")[["sum", "size"]].fillna(0.0).to_numpy()
    return (own[:, 0] + weight * wider) / (own[:, 1] + weight)
