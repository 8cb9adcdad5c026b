"""The looks of a race: how far each entrant is drawn, and by how much one is ahead of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from analysis.methods.stopping.gaps import GapOfPrompts, SequentialGap
from analysis.methods.stopping.looks import Looks
from analysis.methods.stopping.race.question import RaceQuestion
from analysis.methods.stopping.shares import SharesOfPrompts
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.elimination import FROM_ZERO, Bounds, lead

Gaps = TypeVar("Gaps", GapOfPrompts, SharesOfPrompts)
NOTHING: Bounds = (-np.inf, np.inf)


@dataclass(frozen=True)
class Entry:
    """How far an entrant is to be drawn, and of which race it is.

    Attributes
    ----------
    parts : int
        From the first on.
    race : mapping
        What ``run.json`` keeps of the race.
    """

    parts: int
    race: Mapping[str, Any]


@dataclass
class EntrantLooks(Looks):
    """Ends a run where its race has got to, whatever it shows.

    Attributes
    ----------
    entry : Entry
    """

    entry: Entry = field(default_factory=lambda: Entry(0, {}))

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps: what is asked, and the race that it is asked in."""
        return {**super().record(), "race": dict(self.entry.race)}

    def _answered(self, parts: int) -> bool:
        if parts == 1:
            self._require_captured()
        return parts >= self.entry.parts


def compared(
    question: RaceQuestion, one: Gaps, other: Gaps, drawn: int
) -> tuple[Bounds, SequentialGap | None]:
    """Return by how much one entrant is ahead of another after so many prompts, at least and at most.

    Both are paired by prompt. Their words are the same: what these add to the error is that of the difference, word by
    word, so that what a word does in both models cancels.

    Returns
    -------
    tuple
        The bounds of the lead, and the difference of both gaps; None where no prompt has a value of both.
    """
    common = np.intersect1d(one.prompts[one.prompts < drawn], other.prompts[other.prompts < drawn])
    if not len(common):
        return NOTHING, None
    sides = [side.at(np.flatnonzero(np.isin(side.prompts, common))) for side in (one, other)]
    difference = _combined(question, *sides, -1, drawn)
    total = _combined(question, *sides, 1, drawn) if question.aim in FROM_ZERO else None
    of_sum = None if total is None else (total.low, total.high)
    return lead((difference.low, difference.high), of_sum, question.aim), difference


def _combined(question: RaceQuestion, one: Gaps, other: Gaps, sign: int, drawn: int) -> SequentialGap:
    """The sum, or the difference, of two gaps, with an interval at the level of each comparison."""
    level, reach = question.level_of_each, question.asked.reach
    (values, most), (others, others_most) = one.values(reach), other.values(reach)
    found = sequence_interval(values + sign * others, level=level, reach=most + others_most)
    half = np.nan if question.these_words else one.plus(other, sign).words_half(level)
    return SequentialGap.joined(found, half, drawn)

