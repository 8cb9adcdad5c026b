"""How wide the intervals of a human check are, and how wide they are expected to be after the next sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.report.format import number as written
from analysis.stats.rates import ALL
from analysis.stats.staged_sampling import SampleStage, stage_weights
from analysis.studies.human_check.check import AGREED, annotator_agreement
from analysis.studies.human_check.information import ExpectedSquares
from analysis.studies.human_check.next_sheet import Draw, draw_next
from analysis.studies.human_check.weights import LabelledUnits

STEPS = 40  # numbers of triplets that are tried for a width


def widths(
    items: pd.DataFrame,
    units: LabelledUnits,
    figures: Sequence[tuple[str, str]],
    level: float,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]],
) -> tuple[NDArray[np.float64], float]:
    """Return the width of each figure's interval from the labels so far, NaN where there is none, and its level.

    Of several annotators it is that of what all agree on.
    """
    table = annotator_agreement(
        items, units=units, indicators=indicators, contrasts=contrasts, level=level, resamples=2
    )
    people = items["annotator"].unique()
    table = table[table["annotator"] == (AGREED if len(people) > 1 else people[0])]
    table = table[(table["object"] == ALL) & (table["asked"] == ALL)].set_index(["quantity", "indicator"])
    return np.array([table.loc[one, "high"] - table.loc[one, "low"] for one in figures], float), level


@dataclass(frozen=True)
class Plan:
    """What more labels would do to the intervals of some figures.

    Attributes
    ----------
    expected : ExpectedSquares
    units : LabelledUnits
    widths : ndarray of float64, shape (n_figures,)
        Of `widths`.
    level : float
    """

    expected: ExpectedSquares
    units: LabelledUnits
    widths: NDArray[np.float64]
    level: float

    @property
    def left(self) -> int:
        """Triplets and seeds without labels."""
        return sum(unit not in self.units.place for unit in self.expected.units)

    def reached(self, width: float) -> bool:
        """Whether every interval is narrower than a width."""
        return bool((self.widths < width).all())

    def after(self, draw: Draw) -> NDArray[np.float64]:
        """Return the width of each figure's interval that is expected with the labels of a draw."""
        return self.widths * narrowing(self.expected, self.units, draw)

    def said(self, draw: Draw | None = None, alone: Draw | None = None) -> str:
        """Write the widths, and those that are expected with a draw, and with another that is not in strata."""
        after = None if draw is None else self.after(draw)
        other = None if alone is None else self.after(alone)
        texts = []
        for place, (quantity, indicator) in enumerate(self.expected.figures):
            text = f"{quantity} {indicator}: {written(self.widths[place])}"
            if after is not None and other is not None:
                text += f" now, about {written(after[place])} with this sheet"
                text += f" ({written(other[place])} with triplets drawn alike)"
            texts.append(text)
        return f"width of the {100 * self.level:g} % intervals, all objects: {'; '.join(texts)}"

    def needed(self, width: float, rng: np.random.Generator) -> int | None:
        """Return about how many more triplets and seeds give every interval a width; None where all do not."""
        numbers = np.unique(np.geomspace(1, max(self.left, 1), STEPS).round().astype(int))
        for number in numbers:
            draw = draw_next(self.expected, self.units, int(number), rng)
            if (self.after(draw) < width).all():
                return int(number)
        return None


def narrowing(expected: ExpectedSquares, units: LabelledUnits, draw: Draw) -> NDArray[np.float64]:
    """Return by what the standard error of each figure is expected to be multiplied, shape (n_figures,)."""
    place = dict(zip(expected.units, range(len(expected.units))))
    labelled = [unit for unit in units.place if unit in place]
    own = expected.squares[[place[unit] for unit in labelled]]
    before, sizes = units.stages(labelled), draw.sizes.astype(float)
    after = [*before, SampleStage(sizes, draw.drawn.astype(float), draw.drawn.astype(float))]

    def error(stages: Sequence[SampleStage]) -> NDArray[np.float64]:
        weights = stage_weights(stages)
        of_strata = dict(zip(units.strata.index, np.concatenate(weights[: len(before)])))
        total = (np.array([of_strata[units.place[unit]] for unit in labelled]) ** 2) @ own
        if len(stages) > len(before):
            for h, (n, weight) in enumerate(zip(draw.drawn, weights[-1])):
                total = total + n * weight**2 * expected.squares[draw.stratum == h].mean(axis=0)
        return np.sqrt(total)

    now = error(before)
    return np.divide(error(after), now, out=np.full(len(now), np.nan), where=now > 0)
