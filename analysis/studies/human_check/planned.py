"""How wide the intervals of a human check are, and how wide they are expected to be after the next sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.report.format import number as written
from analysis.stats.rates import ALL
from analysis.studies.human_check.check import AGREED, annotator_agreement
from analysis.studies.human_check.information import ExpectedSquares
from analysis.studies.human_check.labels import CHANCE


def widths(
    items: pd.DataFrame,
    figures: Sequence[tuple[str, str]],
    level: float,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]],
) -> NDArray[np.float64]:
    """Return the width of each figure's interval from the labels so far, NaN where there is none.

    Of several annotators it is that of what all agree on.
    """
    table = annotator_agreement(items, indicators=indicators, contrasts=contrasts, level=level, resamples=2)
    people = items["annotator"].unique()
    table = table[table["annotator"] == (AGREED if len(people) > 1 else people[0])]
    table = table[(table["object"] == ALL) & (table["asked"] == ALL)].set_index(["quantity", "indicator"])
    return np.array([table.loc[one, "high"] - table.loc[one, "low"] for one in figures], float)


@dataclass(frozen=True)
class SheetPlan:
    """What another sheet would do to the intervals of some figures.

    Attributes
    ----------
    widths : ndarray of float64, shape (n_figures,)
        Of the labels so far.
    labelled : int
        Triplets and seeds that have labels.
    before, after : ndarray of float64, shape (n_figures,)
        By what the variance of a triplet is multiplied because not all was asked of it: of those labelled, and of the
        next (`ExpectedSquares.added`).
    """

    widths: NDArray[np.float64]
    labelled: int
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def expected(self, more: int) -> NDArray[np.float64]:
        """Return the widths that are expected with so many more triplets, shape (n_figures,).

        Each triplet weighs alike, so that the variance is the sum of theirs over the square of their number.
        """
        both = (self.labelled * self.before + more * self.after) / (self.labelled + more) ** 2
        return self.widths * np.sqrt(both * self.labelled / self.before)

    def needed(self, width: float, most: int) -> int | None:
        """Return how many more triplets give every interval a width; None where so many at most do not."""
        low, high = 0, most
        if not (self.expected(most) < width).all():
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if (self.expected(middle) < width).all() else (middle, high)
        return high


def sheet_plan(
    items: pd.DataFrame, asked: pd.DataFrame, expected: ExpectedSquares, now: NDArray[np.float64]
) -> SheetPlan:
    """Return the plan of a sheet that asks more after some labels.

    Parameters
    ----------
    items : DataFrame
        Of `analysis.studies.human_check.check.labelled_items`.
    asked : DataFrame
        Of `analysis.studies.human_check.next_sheet.choose_among`.
    expected : ExpectedSquares
    now : ndarray of float64, shape (n_figures,)
        Of `widths`.
    """
    known = items.rename(columns={"prompt": "triplet"}).drop_duplicates(["triplet", "seed", "object"])
    before = expected.added(known, known["weight"].to_numpy(float))
    after = expected.added(asked, 1 / asked[CHANCE].to_numpy(float))
    return SheetPlan(now, len(known[["triplet", "seed"]].drop_duplicates()), before, after)


def planned_widths(plan: SheetPlan, expected: ExpectedSquares, level: float, more: int | None = None) -> str:
    """Write the width of each figure's interval, and the one that is expected with so many more triplets."""
    after = None if more is None else plan.expected(more)
    texts = []
    for place, (quantity, indicator) in enumerate(expected.figures):
        then = "" if after is None else f" now, about {written(after[place])} with this sheet"
        texts.append(f"{quantity} {indicator} {written(plan.widths[place])}{then}")
    return f"width of the {100 * level:g} % intervals over all objects: {'; '.join(texts)}"
