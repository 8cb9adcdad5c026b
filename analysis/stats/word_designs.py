"""Designs of other sizes than a run's: what gap against words they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan

import numpy as np

from analysis.stats.power import smallest_number
from analysis.stats.word_power import ErrorDraws, error_draws, gap_found

COARSE = 0.02  # share of the number of prompts; finer than the simulation
DESIGNS = 256  # searches whose result is kept: report and cards ask for the same


@dataclass(frozen=True)
class GapDesign:
    """Errors of a gap over words in a run, from which other designs are judged.

    Attributes
    ----------
    variances : tuple of float
        Of the mean gap over words, by the words of the sides, reference words and prompts.
    words : tuple of int
        Of the first side and of the second.
    references, prompts : int
    """

    variances: tuple[float, float, float]
    words: tuple[int, int]
    references: int
    prompts: int

    @classmethod
    def of(
        cls, error: float, shares: Sequence[float], *, words: tuple[int, int], references: int, prompts: int
    ) -> GapDesign:
        """Return the errors of a gap with a standard error and its shares of variance, see `WordTest`."""
        return cls(tuple(float(share * error**2) for share in shares), words, references, prompts)

    @property
    def freedom(self) -> tuple[int, int, int, int]:
        """Degrees of freedom of the words of either side, reference words and prompts."""
        return self.words[0] - 1, self.words[1] - 1, self.references - 1, self.prompts - 1

    @property
    def _by_side(self) -> tuple[float, float, float, float]:
        """The variances, those of words by side: as if the words of both differed alike."""
        part = [self.variances[0] / k / sum(1 / k for k in self.words) for k in self.words]
        return (*part, *self.variances[1:])

    def resized(self, *, words: int | None = None, prompts: int | None = None) -> GapDesign:
        """Return the design with so many words a side and reference words, or so many prompts."""
        sides, references = ((words, words), words) if words else (self.words, self.references)
        prompts = prompts or self.prompts
        of_words, of_references, of_prompts = self.variances
        of_words *= sum(1 / k for k in sides) / sum(1 / k for k in self.words)
        of_references *= self.references / references
        return GapDesign(
            (of_words, of_references, of_prompts * self.prompts / prompts), sides, references, prompts
        )

    def power(self, gap: float, draws: ErrorDraws, *, alpha: float = 0.05) -> float:
        """Return the share of runs of this design in which a gap is significant against words."""
        return float(gap_found(gap, self._by_side, self.freedom, draws, alpha=alpha).mean())

    @lru_cache(maxsize=DESIGNS)  # noqa: B019 of a few designs
    def detectable(self, *, power: float = 0.8, alpha: float = 0.05, simulations: int = 4000) -> float:
        """Return the smallest gap that is found with this power, in its units; NaN where there is no test."""
        total = float(np.sqrt(sum(self.variances)))
        if not total > 0 or sum(self.words) < 3:
            return nan
        draws = error_draws(simulations)
        low, high = 0.0, total
        while self.power(high, draws, alpha=alpha) < power:
            low, high = high, 2 * high
        while high - low > COARSE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.power(middle, draws, alpha=alpha) >= power else (middle, high)
        return high

    @lru_cache(maxsize=DESIGNS)  # noqa: B019 of a few designs
    def prompts_for(self, gap: float, *, power: float = 0.8, alpha: float = 0.05) -> int | None:
        """Return how many prompts find a gap with this power; None where no number does, because of the words."""
        draws = error_draws(4000)

        def power_at(prompts: int) -> float:
            return self.resized(prompts=prompts).power(gap, draws, alpha=alpha)

        without = (*self._by_side[:3], 0.0)
        endless = gap_found(gap, without, (*self.freedom[:3], np.inf), draws, alpha=alpha).mean()
        return smallest_number(power_at, power, precision=COARSE) if endless >= power else None
