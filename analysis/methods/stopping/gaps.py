r"""The gap of a run after its first n prompts, with an interval that holds wherever the run stops.

The gap over all words has an error of three samples: of prompts, of the sides' words and of the reference words
(`analysis.stats.word_test`). Prompts are seen one after another, and their part of the interval is that of a confidence
sequence (`analysis.stats.confidence_sequences`). Words are chosen before the first image and are the same at each look:
no more of them are ever generated, and their part stays that of a fixed design. Both are joined as parts that are not
added up are (Banerjee 1960): at either end the root of the sum of both squares.

With one word a side nothing is known of other words. The interval is then that of these words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from analysis.stats.bootstrap import prompt_means
from analysis.stats.confidence_sequences import sequence_interval
from analysis.stats.word_test import prompt_gaps, word_test
from analysis.tables.similarities.word_gap import SideWords

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
    e_value: float  # evidence against a gap of 0, wherever the run stops
    n_left_out: int = 0  # prompts that were generated and lack a value


def gap_after(
    generated: int,
    near: Near,
    words: SideWords,
    prompts: NDArray[np.int64],
    *,
    limit: float,
    level: float,
    reach: str = RUN,
) -> SequentialGap | None:
    """Return the gap after so many generated prompts; None where none of them has a value of every word.

    Seeds of a prompt are averaged, and a prompt that lacks a value is left out. `prompts` are the places of what `near`
    gives in the order in which prompts are generated, ascending. `reach`: a gap of a prompt is at most what
    similarities of the prompts before lie apart (``run``), or the whole range of the measure, `limit` (``measure``).
    """
    sides, seen = (words.first, words.second), prompts < generated
    pairs = [(own, name) for side in sides for own in words.reference for name in side]
    if several := min(map(len, sides)) > 1:
        pairs += [pair for side in sides for pair in combinations(side, 2)]
    values = np.stack([near(*pair)[seen] for pair in pairs])  # (pairs, prompts, seeds)
    lowest, highest = (end.accumulate(end.reduce(values, axis=(0, 2))) for end in (np.fmin, np.fmax))
    means = prompt_means(values.transpose(1, 2, 0))
    whole = ~np.isnan(means).any(axis=1)
    if not (n := int(whole.sum())):
        return None
    nearness = dict(zip(pairs, means[whole].T))
    first, second = (
        np.array([[nearness[own, name] for name in side] for own in words.reference])[..., None]
        for side in sides
    )
    within = tuple(_table(nearness, side) for side in sides) if several else None
    gaps = prompt_gaps(first, second, within)[:, 0]
    spans = np.full(n, limit) if reach == MEASURE else np.r_[limit, (highest - lowest)[whole][: n - 1]]
    # the corrected gap is a difference of similarities and half of another
    found = sequence_interval(gaps, level=level, reach=spans * (1.5 if several else 1))
    low, high, half = found.low, found.high, np.nan
    if several and n > 1:
        half = float(word_test(first, second, within=within, level=level).words_half[0])
    if np.isfinite(half):
        low = found.mean - np.hypot(max(found.mean - low, 0.0), half)
        high = found.mean + np.hypot(max(high - found.mean, 0.0), half)
    ends = float(low), float(high), found.low, found.high
    return SequentialGap(n, found.mean, *ends, half, found.e_value, generated - n)


def _table(near: Mapping[tuple[str, str], NDArray[np.float64]], side: list[str]) -> NDArray[np.float64]:
    """Nearness of the words of a side to each other, shape (n_words, n_words, n_prompts, 1)."""
    n = len(near[side[0], side[1]])
    values = np.full((len(side), len(side), n, 1), np.nan)
    for (a, one), (b, other) in combinations(enumerate(side), 2):
        values[a, b, :, 0] = values[b, a, :, 0] = near[one, other]
    return values
