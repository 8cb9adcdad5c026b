r"""The gap of a run after its first n prompts, with an interval that holds wherever the run stops.

The gap over all words has an error of three samples: of prompts, of the sides' words and of the reference words
(`analysis.stats.word_test`). Prompts are seen one after another, and their part of the interval is that of a confidence
sequence (`analysis.stats.confidence_sequences`). Words are chosen before the first image and are the same at each look:
no more of them are ever drawn, and their part stays that of a fixed design. Both are joined as parts that are not added
up are (Banerjee 1960): at either end the root of the sum of both squares.

With one word a side nothing is known of other words. The interval is then that of these words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analysis.stats.bootstrap import prompt_means
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.word_pairs import prompt_gaps
from analysis.stats.word_test import word_test
from analysis.tables.similarities.control_columns import SideWords

Near = Callable[[str, str], NDArray[np.float64]]  # nearness of two words, shape (n_prompts, n_seeds)
RUN, MEASURE = "run", "measure"


@dataclass(frozen=True)
class SequentialGap:
    """A gap after n prompts."""

    n_prompts: int  # those with a value of every word
    gap: float
    low: float  # infinite where nothing can be ruled out yet
    high: float
    prompts_low: float  # of the interval for other prompts and the same words
    prompts_high: float
    words_half: float  # half the interval for other words; NaN with one word a side
    # evidence against a gap of 0 of these words; 1 / e_value is a p-value that holds wherever the run stops
    e_value: float
    n_left_out: int = 0  # prompts that were drawn and lack a value


@dataclass(frozen=True)
class GapOfPrompts:
    """Nearness of all words that a gap is made of, by prompt in the order in which they were drawn."""

    # nearness of each reference word to each word of a side, shape (n_references, n_words, n_prompts)
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    # of the words of each side to each other, (n_words, n_words, n_prompts), where both sides have two or more
    within: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    span: NDArray[np.float64]  # how far all similarities up to a prompt, this one with them, lie apart
    prompts: NDArray[np.int64]  # their places in the order in which prompts are drawn, ascending
    limit: float  # how far similarities can lie apart: the range of the measure

    @classmethod
    def of(cls, near: Near, words: SideWords, prompts: NDArray[np.int64], limit: float) -> GapOfPrompts:
        """Gather what is near what; seeds of a prompt are averaged, and a prompt that lacks a value is left out."""
        sides = [
            np.array([[near(own, name) for name in side] for own in words.reference])
            for side in (words.first, words.second)
        ]
        within: tuple[NDArray[np.float64], ...] = ()
        if min(len(words.first), len(words.second)) > 1:
            within = tuple(_table(near, side) for side in (words.first, words.second))
        parts = (*sides, *within)
        pairs = [part.reshape(-1, *part.shape[-2:]) for part in parts]  # each (pairs, prompts, seeds)
        low, high = (
            end.accumulate(end.reduce([end.reduce(part, axis=(0, 2)) for part in pairs], axis=0))
            for end in (np.fmin, np.fmax)
        )
        means = [
            prompt_means(pair.transpose(1, 2, 0)).T.reshape(part.shape[:-1])
            for pair, part in zip(pairs, parts)
        ]
        off = [mean[~np.eye(len(mean), dtype=bool)] for mean in means[2:]]  # the diagonals hold nothing
        whole = ~np.any(
            [np.isnan(mean).any(axis=tuple(range(mean.ndim - 1))) for mean in (*means[:2], *off)], axis=0
        )
        means = [mean[..., whole] for mean in means]
        return cls(
            means[0],
            means[1],
            (means[2], means[3]) if within else None,
            (high - low)[whole],
            prompts[whole],
            limit,
        )

    def after(self, drawn: int, *, level: float, reach: str = RUN) -> SequentialGap | None:
        """Return the gap after so many prompts were drawn; None where none of them has a value of every word.

        `reach`: a gap of a prompt is at most what similarities of the prompts before lie apart (``run``), or the whole
        range of the measure (``measure``).
        """
        n = int((self.prompts < drawn).sum())
        if not n:
            return None
        seen = self.at(slice(n))
        values, most = seen.values(reach)
        found, half = sequence_interval(values, level=level, reach=most), seen.words_half(level)
        low, high = found.low, found.high
        if np.isfinite(half):
            low = found.mean - np.hypot(max(found.mean - low, 0.0), half)
            high = found.mean + np.hypot(max(high - found.mean, 0.0), half)
        ends = float(low), float(high), found.low, found.high
        return SequentialGap(found.n, found.mean, *ends, half, found.e_value, drawn - found.n)

    def at(self, places: slice | NDArray[np.int64]) -> GapOfPrompts:
        """Return what is known of some of the prompts, by their rows here."""
        within = self.within and (self.within[0][..., places], self.within[1][..., places])
        sides = self.first[..., places], self.second[..., places]
        return GapOfPrompts(*sides, within, self.span[places], self.prompts[places], self.limit)

    def values(self, reach: str = RUN) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gap of each prompt, and how much it can be at most as known before it; shape (n_prompts,)."""
        n = len(self.prompts)
        values = prompt_gaps(self.first[..., None], self.second[..., None], self._within())[:, 0]
        # the corrected gap is a difference of similarities and half of another
        spans = np.full(n, self.limit) if reach == MEASURE else np.r_[self.limit, self.span[: n - 1]][:n]
        return values, spans * (1 if self.within is None else 1.5)

    def words_half(self, level: float) -> float:
        """Return half the interval for other words; NaN with one word a side, or one prompt."""
        if min(self.first.shape[1], self.second.shape[1]) < 2 or len(self.prompts) < 2:
            return np.nan
        sides = self.first[..., None], self.second[..., None]
        return float(word_test(*sides, within=self._within(), level=level).words_half[0])

    def _within(self) -> tuple[NDArray[np.float64], ...] | None:
        return None if self.within is None else tuple(of_side[..., None] for of_side in self.within)


def _table(near: Near, side: Sequence[str]) -> NDArray[np.float64]:
    """Nearness of the words of a side to each other, shape (n_words, n_words, n_prompts, n_seeds)."""
    shape = near(*side[:2]).shape
    values = np.full((len(side), len(side), *shape), np.nan)
    for a, b in combinations(range(len(side)), 2):
        values[a, b] = values[b, a] = near(side[a], side[b])
    return values
