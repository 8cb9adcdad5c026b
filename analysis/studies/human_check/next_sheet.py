"""The next sheet, given the labels so far: other images, and of each the questions whose answers narrow intervals most.

Triplets are drawn at random among those without labels, as those of the first sheet were: which of them is shown makes
next to no difference, since each is asked about a dozen objects. Which objects are asked for does. Each question has a
chance of its own, in proportion to the root of what its answers are expected to add
(`analysis.studies.human_check.information`), none below `LEAST`, and an answer stands for one over the chance of its
question: so the rates are those of all questions, however far off the expectations are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.unequal_probabilities import inclusion_probabilities, systematic_sample
from analysis.studies.human_check.check import in_turn
from analysis.studies.human_check.information import ExpectedSquares
from analysis.studies.human_check.labels import CHANCE

LEAST = 0.1  # chance of a question
ASKED = 0.5  # share of the questions that are asked
KNOWN = ["sample_id", "triplet", "seed", "indicator"]


def draw_next(
    draws: pd.DataFrame, items: pd.DataFrame, samples: pd.DataFrame, number: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Return triplets and seeds without labels, at random: those of prompts with the fewest labelled seeds first.

    Parameters
    ----------
    draws : DataFrame
        ``triplet`` and ``seed`` of the run.
    items : DataFrame
        ``sample_id`` of what has labels.
    samples : DataFrame
        ``sample_id``, ``triplet``, ``seed`` of every image.
    number : int
        How many; all that are left, where there are fewer.
    rng : Generator
    """
    begun = samples.loc[samples["sample_id"].isin(items["sample_id"]), ["triplet", "seed"]].drop_duplicates()
    left = draws.merge(begun, how="left", indicator=True)
    left = in_turn(left.loc[left["_merge"] == "left_only", ["triplet", "seed"]], rng)
    turn = left["turn"] + left["triplet"].map(begun["triplet"].value_counts()).fillna(0)
    return left.assign(turn=turn).sort_values("turn", kind="stable").head(number)[["triplet", "seed"]]


def choose_among(
    questions: pd.DataFrame, expected: ExpectedSquares, rng: np.random.Generator, share: float = ASKED
) -> pd.DataFrame:
    """Return the questions that are asked of some triplets and seeds, at least one of each, with their ``chance``.

    Parameters
    ----------
    questions : DataFrame
        ``triplet``, ``seed``, ``object``: all that may be asked.
    expected : ExpectedSquares
    rng : Generator
    share : float
        Of them that are asked, about.
    """
    questions = questions.iloc[rng.permutation(len(questions))]
    questions = questions.sort_values(["triplet", "seed"], kind="stable").reset_index(drop=True)
    chances = chances_of(questions, expected, share)
    chosen = questions.assign(**{CHANCE: chances})[systematic_sample(chances, rng)]
    return chosen.sort_values(["triplet", "seed", "object"]).reset_index(drop=True)


def chances_of(
    questions: pd.DataFrame, expected: ExpectedSquares, share: float = ASKED
) -> NDArray[np.float64]:
    """Return the chance of each question, shape (n_questions,); those of a triplet and seed have a sum of 1 or more."""
    squares = expected.asked(questions)
    of_draw = questions.groupby(["triplet", "seed"])["object"].transform("size").to_numpy()
    means = squares.mean(axis=0)
    together = np.divide(squares, means, out=np.ones(squares.shape), where=means > 0).mean(axis=1)
    return inclusion_probabilities(
        np.sqrt(together + 1e-9), share * len(squares), np.maximum(LEAST, 1 / of_draw)
    )


def sheet_of(
    asked: pd.DataFrame,
    samples: pd.DataFrame,
    begun: pd.DataFrame,
    indicators: Sequence[str],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return the questions of a sheet in the order in which they are shown, as `choose_questions` does.

    Parameters
    ----------
    asked : DataFrame
        Of `choose_among`.
    samples : DataFrame
    begun : DataFrame
        Of `unfinished`: what is asked once more.
    indicators : sequence of str
    rng : Generator
        Of the order of the images.
    """
    shown = samples[samples["indicator"].isin(list(indicators))][KNOWN]
    both = pd.concat([begun, shown.merge(asked, on=["triplet", "seed"])[[*KNOWN, "object", CHANCE]]])
    names = both["sample_id"].drop_duplicates()
    order = dict(zip(names.iloc[rng.permutation(len(names))], range(len(names))))
    return both.sort_values("sample_id", key=lambda ids: ids.map(order), kind="stable").reset_index(drop=True)


def unfinished(
    samples: pd.DataFrame, items: pd.DataFrame, indicators: Sequence[str], images: int
) -> pd.DataFrame:
    """Return the questions of images without labels, at most so many, whose triplet and seed have some."""
    own = samples[samples["indicator"].isin(list(indicators))][KNOWN]
    asked = samples[KNOWN[:3]].merge(items[["sample_id", "object", "weight"]], on="sample_id")
    asked = asked.drop_duplicates(["triplet", "seed", "object"]).assign(**{CHANCE: lambda t: 1 / t["weight"]})
    missing = own[~own["sample_id"].isin(items["sample_id"])].merge(
        asked[["triplet", "seed"]].drop_duplicates()
    )
    questions = missing.head(images).merge(asked, on=["triplet", "seed"], suffixes=("", "_of"))
    return questions[[*KNOWN, "object", CHANCE]].round({CHANCE: 3})
