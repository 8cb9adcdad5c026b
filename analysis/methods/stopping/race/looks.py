"""The looks of a race: how far each entrant is drawn, and by how much one is ahead of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from analysis.methods.stopping.gaps import GapOfPrompts, SequentialGap
from analysis.methods.stopping.looks import Looks
from analysis.methods.stopping.race.question import RaceQuestion
from analysis.methods.stopping.shares import SharesOfPrompts
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.elimination import FROM_ZERO, RaceStanding, lead

Gaps = TypeVar("Gaps", GapOfPrompts, SharesOfPrompts)


class RaceLead(NamedTuple):
    """By how much one entrant is ahead of another, and at least and at most; below 0 where it is behind."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class RaceLook:
    """A race after a look.

    Attributes
    ----------
    standing : RaceStanding
        Who is left.
    gaps : mapping of int to SequentialGap or None
        Of each that was left before, for itself alone.
    leads : mapping of (int, int) to RaceLead
        Of every two of these, the lower number first.
    images : int
        Drawn of each of these by then.
    """

    standing: RaceStanding
    gaps: Mapping[int, SequentialGap | None]
    leads: Mapping[tuple[int, int], RaceLead]
    images: int

    def lead(self, one: int, other: int) -> RaceLead:
        """Return the lead of one entrant over another."""
        if one < other:
            return self.leads[one, other]
        estimate, low, high = self.leads[other, one]
        return RaceLead(-estimate, -high, -low)


@dataclass(frozen=True)
class RaceEntry:
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
    entry : RaceEntry
    """

    entry: RaceEntry = field(default_factory=lambda: RaceEntry(0, {}))

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps: what is asked, and the race that it is asked in."""
        return {**super().record(), "race": dict(self.entry.race)}

    def there(self) -> int:
        """Return how many parts there are, from the first to the first that is missing."""
        return self._there()

    def _answered(self, parts: int) -> bool:
        if parts == 1:
            self._require()
        return parts >= self.entry.parts


def compared(question: RaceQuestion, one: Any, other: Any, drawn: int) -> RaceLead:
    """Return by how much one entrant is ahead of another after so many prompts, or seeds.

    Both are paired by prompt, or seed. Their words are the same: what these add to the error is that of the difference,
    word by word, so that what a word does in both models cancels.

    Parameters
    ----------
    question : RaceQuestion
    one, other : GapOfPrompts or SharesOfPrompts
        Both of one kind.
    drawn : int
        Prompts, or seeds, drawn of each.
    """
    common = np.intersect1d(one.prompts[one.prompts < drawn], other.prompts[other.prompts < drawn])
    if not len(common):
        return RaceLead(np.nan, -np.inf, np.inf)
    first, second = (side.at(np.flatnonzero(np.isin(side.prompts, common))) for side in (one, other))
    apart = _combined(question, first, second, -1, drawn)
    both = _combined(question, first, second, 1, drawn) if question.aim in FROM_ZERO else None
    means, ends = ((both.gap, both.gap), (both.low, both.high)) if both else (None, None)
    estimate, _ = lead((apart.gap, apart.gap), means, question.aim)
    return RaceLead(estimate, *lead((apart.low, apart.high), ends, question.aim))


def _combined(question: RaceQuestion, one: Gaps, other: Gaps, sign: int, drawn: int) -> SequentialGap:
    """The sum, or the difference, of two gaps, with an interval at the level of each comparison."""
    level, reach = question.level_of_each, question.asked.reach
    (values, most), (others, others_most) = one.values(reach), other.values(reach)
    found = sequence_interval(values + sign * others, level=level, reach=most + others_most)
    half = np.nan if question.these_words else one.plus(other, sign).words_half(level)
    return SequentialGap.joined(found, half, drawn)
