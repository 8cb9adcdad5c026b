"""Audits of one world side by side: what each shows after its first n prompts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import MEASURE, GapOfPrompts, SequentialGap
from analysis.stats.confidence_sequences import BETS, CAPS, FEWEST, sequence_interval
from analysis.stats.effects import student_interval
from analysis.stats.word_pairs import prompt_gaps
from analysis.stats.word_test import word_test
from analysis.tables.similarities.control_columns import SideWords

Array = NDArray[np.float64]
Usual = tuple[Array, Array, Array, Array]  # mean, both ends and the words' half, each of shape (n_audits,)


@dataclass(frozen=True)
class Stakes:
    """How a gambler stakes (`analysis.stats.confidence_sequences`); the project's own by default.

    Attributes
    ----------
    bets, caps : tuple of float
    fewest : int
        Values on which nothing is staked.
    shrink : float
        So many values at the reach are counted into the first scale (Waudby-Smith and Ramdas 2024, Section 3.3).
    """

    bets: tuple[float, ...] = BETS
    caps: tuple[float, ...] = CAPS
    fewest: int = FEWEST
    shrink: float = 0.0


OWN = Stakes()


@dataclass(frozen=True)
class PromptAudits:
    """Audits of differences of prompts.

    Attributes
    ----------
    values : ndarray, shape (n_prompts, n_audits)
        In the order in which they are seen.
    bound : float, optional
        No value is larger.
    """

    values: Array
    bound: float | None = None

    def usual(self, n: int, level: float, chosen: NDArray[np.int64]) -> Usual:
        """Return Student's interval of some audits."""
        found = student_interval(self.values[:n, chosen], level=level)
        return found.mean, found.low, found.high, np.full(len(chosen), np.nan)

    def reach(self, of: str) -> Array | None:
        """Return the largest absolute value as known before each, shape (n_prompts, 1)."""
        return np.full((len(self.values), 1), self.bound) if of == MEASURE else None

    def after(self, audit: int, n: int, level: float, of: str) -> SequentialGap:
        """Return what an audit that stops by itself finds."""
        reach = self.bound if of == MEASURE else None
        found = sequence_interval(self.values[:n, audit], level=level, reach=reach)
        return SequentialGap(
            n, found.mean, found.low, found.high, found.low, found.high, np.nan, found.e_value
        )


@dataclass(frozen=True)
class WordAudits:
    """Audits of gaps over several words a side.

    Attributes
    ----------
    sides : two of ndarray of shape (n_references, n_words, n_prompts, n_audits)
    within : two of ndarray of shape (n_words, n_words, n_prompts, n_audits)
        As of `analysis.stats.word_test`.
    limit : float
        How far similarities can lie apart.
    """

    sides: tuple[NDArray, NDArray]
    within: tuple[NDArray, NDArray]
    limit: float = 2.0

    @cached_property
    def values(self) -> Array:
        """The gap of each prompt, shape (n_prompts, n_audits)."""
        return prompt_gaps(*self.sides, self.within)

    def usual(self, n: int, level: float, chosen: NDArray[np.int64]) -> Usual:
        """Return the interval of `analysis.stats.word_test` of some audits."""
        sides, within = ([part[:, :, :n, chosen] for part in parts] for parts in (self.sides, self.within))
        found = word_test(*sides, within=within, level=level)
        return found.gap, found.low, found.high, found.words_half

    @cached_property
    def _spans(self) -> Array:
        """How far similarities of the prompts before each lie apart, shape (n_prompts, n_audits)."""
        off = [part[~np.eye(len(part), dtype=bool)] for part in self.within]
        parts = [*(part.reshape(-1, *part.shape[2:]) for part in self.sides), *off]
        low, high = (
            end.accumulate(end.reduce([end.reduce(part, axis=0) for part in parts]), axis=0)
            for end in (np.minimum, np.maximum)
        )
        spans = np.full(self.values.shape, self.limit)
        spans[1:] = (high - low)[:-1]
        return spans

    def reach(self, of: str) -> Array:
        """Return the largest absolute gap as known before each prompt, shape (n_prompts, n_audits)."""
        return 1.5 * (np.full(self.values.shape, self.limit) if of == MEASURE else self._spans)

    def after(self, audit: int, n: int, level: float, of: str) -> SequentialGap:
        """Return what an audit that stops by itself finds."""
        found = self._gap(audit).after(n, level=level, reach=of)
        assert found is not None
        return found

    def _gap(self, audit: int) -> GapOfPrompts:
        sizes = [self.sides[0].shape[1], self.sides[1].shape[1], self.sides[0].shape[0]]
        words = SideWords(*([f"{group}{k}" for k in range(size)] for group, size in zip("abr", sizes)))
        groups = {"a": 0, "b": 1}

        def near(one: str, other: str) -> Array:
            of = groups[other[0]]
            part = self.sides[of] if one[0] == "r" else self.within[of]
            return part[int(one[1:]), int(other[1:]), :, audit, None].astype(np.float64)

        return GapOfPrompts.of(near, words, np.arange(len(self.values)), self.limit)


Audits = PromptAudits | WordAudits


def log_capitals(
    values: Array, means: Array, reach: Array | None, looks: NDArray[np.int64], stakes: Stakes = OWN
) -> Array:
    """Return `analysis.stats.confidence_sequences.log_capital` of many audits at once, after each of some numbers.

    Parameters
    ----------
    values : ndarray, shape (n_values, n_audits)
    means : ndarray, shape (k,) or (n_audits, k)
    reach : ndarray, shape (n_values, n_audits) or (n_values, 1), or None
    looks : ndarray of int, shape (n_looks,)
        Each more than what nothing is staked on.
    stakes : Stakes

    Returns
    -------
    ndarray, shape (n_looks, n_audits, k)
    """
    first, off = stakes.fewest, values[..., None] - means
    squares, number = np.cumsum(off**2, axis=0)[first - 1 : -1], np.arange(first, len(values))[:, None, None]
    least: Array | float = 0.0
    if reach is not None:
        least = reach[first:, :, None] + np.abs(means)
        squares, number = squares + stakes.shrink * least**2, number + stakes.shrink
    scale, staked, logs = np.sqrt(squares / number), off[first:], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for bet, cap in zip(stakes.bets, stakes.caps):
            won = staked / np.maximum(scale / bet, least / cap)
            won = np.clip(np.nan_to_num(won, nan=0.0), -1, 1)
            logs += [np.cumsum(np.log1p(sign * won), axis=0)[looks - first - 1] for sign in (1, -1)]
    return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
