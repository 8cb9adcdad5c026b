"""How much the answer to each question would add to what is known of a detector's errors.

A rate's variance is a sum of squares over the questions that are answered, so that one tells the more, the larger its
square is expected to be. It is large where the detector is likely to be wrong: where it did not find what the prompt
names, or what it found in another image of the triplet, and of objects on which it erred before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.rates import ALL, QUANTITIES
from analysis.studies.human_check.check import askable, other_questions

PRIOR = 4.0  # labels that the rate of all objects of a kind counts for beside those of an object


@dataclass(frozen=True)
class ExpectedSquares:
    """What the answers to each question about a run, in all images of a triplet and seed, are expected to add.

    Attributes
    ----------
    figures : tuple of (str, str)
        Quantity and indicator, or contrast, whose intervals are to be narrow.
    squares : ndarray of float64, shape (n_draws, n_figures)
        Of all that is asked of a triplet and seed.
    places : dict
        Of a triplet, seed and object in `of_questions`; no object stands for those that were found in no image.
    of_questions : ndarray of float64, shape (n_questions, n_figures)
        Of one question; the last are zeros, of what is in no image's questions.
    """

    figures: tuple[tuple[str, str], ...]
    squares: NDArray[np.float64]
    places: Mapping[tuple[Any, Any, str], int]
    of_questions: NDArray[np.float64]

    def asked(self, questions: pd.DataFrame) -> NDArray[np.float64]:
        """Return the squares of questions (``triplet``, ``seed``, ``object``), shape (n_rows, n_figures)."""
        keys = zip(questions["triplet"], questions["seed"], questions["object"])
        return self.of_questions[
            [self.places.get((t, s, o), self.places.get((t, s, ""), -1)) for t, s, o in keys]
        ]

    def added(self, asked: pd.DataFrame, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return by what the variance of each figure is multiplied because some questions are asked, with weights.

        Parameters
        ----------
        asked : DataFrame
            ``triplet``, ``seed`` and ``object`` of these.
        weight : ndarray of float64, shape (n_rows,)
            One over the chance of each.
        """
        more = ((weight * (weight - 1))[:, None] * self.asked(asked)).sum(axis=0)
        draws = len(asked[["triplet", "seed"]].drop_duplicates())
        whole = draws * self.squares.mean(axis=0)
        return 1 + np.divide(more, whole, out=np.zeros(len(more)), where=whole > 0)


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
    """Return what the answers to each question would add to recall and precision of all objects.

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
    sides = list(indicators)
    pairs = [(f"{a}-{b}", [(a, 1.0), (b, -1.0)]) for a, b in contrasts if {a, b} <= set(sides)]
    group = pd.Index(sides).get_indexer(cells["indicator"])
    share, detected = cells["share"].to_numpy(), cells["detected"].to_numpy(float)
    place, shape = (cells["number"].to_numpy(), group), (len(draws), len(sides))
    asked = cells.groupby(["number", "ask"], sort=True)
    question, count = asked.ngroup().to_numpy(), asked.ngroups
    figures: list[tuple[str, str]] = []
    squares: list[NDArray[np.float64]] = []
    of_questions: list[NDArray[np.float64]] = []
    for quantity in QUANTITIES:
        of = there if quantity == "recall" else detected
        totals = np.maximum(_sums(place, share * of, shape).sum(axis=0), 1e-9)
        rate = (_sums(place, share * there * detected, shape).sum(axis=0) / totals)[group]
        # what an answer adds where the object is there, and where it is not
        yes, no = (
            (detected - rate, 0.0) if quantity == "recall" else (detected * (1 - rate), -detected * rate)
        )
        mean = (there * yes + (1 - there) * no) / totals[group]
        variance = there * (1 - there) * (yes - no) ** 2 / totals[group] ** 2
        for label, signs in pairs or [(ALL, [(name, 1.0) for name in sides])]:
            sign = pd.Series(dict(signs)).reindex(sides, fill_value=0.0).to_numpy()[group]
            figures.append((quantity, label))
            for sums, number, weight in ((squares, place[0], share), (of_questions, question, 1.0)):
                bins = shape[0] if sums is squares else count
                sums.append(
                    np.bincount(number, weight * sign * mean, bins) ** 2
                    + np.bincount(number, weight * sign**2 * variance, bins)
                )
    keys = asked.size().reset_index()
    rows = draws.iloc[keys["number"]]
    return ExpectedSquares(
        tuple(figures),
        np.column_stack(squares),
        dict(zip(zip(rows["triplet"], rows["seed"], keys["ask"]), range(count))),
        np.vstack(
            [np.column_stack(of_questions), np.zeros((1, len(figures)))]
        ),  # the last: of what is not expected
    )


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
