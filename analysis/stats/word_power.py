r"""Power of the test against words, which more prompts alone do not raise.

The test of `analysis.stats.word_test.word_test` holds a gap against the error of three samples: the words of the sides,
the words of the reference, and the prompts. Only the last falls with more prompts, so that power has a ceiling which
words set: with two words a side and two degrees of freedom it is low however many prompts are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.crossed import crossed_bound
from analysis.stats.power import NO_GAP, smallest_number
from analysis.stats.word_test import error_parts

WORD_POWER_COLUMNS = (
    *("gap", "sd_prompt", "sd_seed", "sd_word", "sd_reference", "seeds", "words", "references"),
    *("planned", "power_planned", "ceiling", "prompts", "images", "power", "power_error", "reason"),
)
CEILING = "words: no number of prompts reaches this power"
ONE_WORD = "words: one a side gives no test against words"
COARSE = 0.02  # the same, of designs that a report proposes
KEPT = 64  # quantiles of χ² that are kept of some draws
DESIGNS = 256  # searches whose result is kept: report and cards ask for the same
PRECISION = 0.005  # share of the number of prompts; finer than the simulation


def word_gap_power(
    gap: float,
    n_prompts: float,
    *,
    spread: float,
    words: int,
    references: int,
    sd_word: float,
    sd_reference: float = 0.0,
    alpha: float = 0.05,
    simulations: int = 20_000,
    seed: int = 0,
) -> float:
    """Return the simulated power of the two-sided test against words for normal words, reference words and prompts.

    Of a mean gap, with `spread` the standard deviation of the gap between prompts, `sd_word` that between words of one
    side of their nearness to the reference, `sd_reference` that of the gap between reference words; `words` are those
    of each side, and infinitely many prompts give the ceiling. A single reference word is taken as it is.
    """
    if words < 2:
        return nan
    of_side = sd_word**2 / words
    sizes = [of_side, of_side, sd_reference**2 / references, spread**2 / n_prompts]
    freedom = [words - 1, words - 1, references - 1, n_prompts - 1]
    draws = error_draws(simulations, seed=(seed, words, references))
    return float((gap_found(gap, sizes, freedom, draws, alpha=alpha)).mean())


class ErrorDraws:
    """What `gap_found` makes errors of, drawn as quantiles: designs of different sizes are compared on the same draws.

    Four rows, of the words of either side, reference words and prompts; a search asks for the χ² of words again and
    again, and to invert it is all that it takes.
    """

    def __init__(self, simulations: int, seed: int | tuple[int, ...]):
        rng = np.random.default_rng(seed)
        self.normal, quantiles = rng.standard_normal((4, simulations)), rng.random((4, simulations))
        self.chi_square = lru_cache(KEPT)(lambda factor, degrees: special.chdtri(degrees, quantiles[factor]))


@lru_cache(maxsize=2)
def error_draws(simulations: int, *, seed: int | tuple[int, ...] = 0) -> ErrorDraws:
    """Return what `gap_found` makes errors of; kept, for all designs of a report are compared on the same."""
    return ErrorDraws(simulations, seed)


def gap_found(
    gap: float,
    variances: Sequence[float],
    freedom: Sequence[float],
    draws: ErrorDraws,
    *,
    alpha: float = 0.05,
) -> NDArray[np.bool_]:
    """Tell in which draws the test against words is significant at ``alpha``, shape (simulations,).

    Variances and degrees of freedom are of the words of either side, reference words and prompts; infinity for
    endlessly many prompts, 0 for a single reference word.
    """
    observed = gap + np.sqrt(np.asarray(variances)) @ draws.normal
    first, second, references, prompts = (
        (variance * draws.chi_square(factor, degrees) / degrees, degrees)
        if degrees > 0 and np.isfinite(degrees)
        else (np.full(len(observed), variance), degrees)
        for factor, (variance, degrees) in enumerate(zip(variances, freedom))
    )
    parts = error_parts([first, second], (*references, references[0]), prompts)
    return observed**2 >= crossed_bound(alpha, parts)


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


def prompts_for_words(
    gap: float,
    *,
    sd_prompt: float,
    sd_seed: float = 0.0,
    seeds: int = 1,
    words: int = 3,
    references: int = 3,
    sd_word: float = 0.2,
    sd_reference: float = 0.2,
    planned: int = 24,
    power: float = 0.8,
    alpha: float = 0.05,
    simulations: int = 20_000,
    seed: int = 0,
) -> dict:
    """Return how many prompts show a gap beyond what the choice of words makes, or why none do.

    Parameters
    ----------
    gap, sd_prompt, sd_seed, seeds
        As of `analysis.stats.power.prompts_for_gap`.
    words, references, sd_word, sd_reference
        See `word_gap_power`.
    planned : int
        A number of prompts whose power is told beside.
    power, alpha, simulations, seed

    Returns
    -------
    dict
        With the keys `WORD_POWER_COLUMNS`: ``ceiling`` is the power of endlessly many prompts, ``images`` are those of
        all words. NaN with a reason where no number of prompts reaches the power.

    Examples
    --------
    >>> two, five = (prompts_for_words(0.5, sd_prompt=1.0, words=k, references=1) for k in (2, 5))
    >>> two["reason"], two["ceiling"] < five["ceiling"] < 1
    ('words: no number of prompts reaches this power', True)
    """
    spreads = {"sd_prompt": sd_prompt, "sd_seed": sd_seed, "sd_word": sd_word, "sd_reference": sd_reference}
    counts = {"seeds": seeds, "words": words, "references": references, "planned": planned}
    result = dict.fromkeys(WORD_POWER_COLUMNS, nan) | {"gap": gap, **spreads, **counts, "reason": ""}
    if gap == 0 or words < 2:
        return result | {"reason": NO_GAP if gap == 0 else ONE_WORD}

    def power_at(n_prompts: float) -> float:
        return word_gap_power(
            gap,
            n_prompts,
            spread=float(np.sqrt(sd_prompt**2 + sd_seed**2 / seeds)),
            words=words,
            references=references,
            sd_word=sd_word,
            sd_reference=sd_reference,
            alpha=alpha,
            simulations=simulations,
            seed=seed,
        )

    result |= {"power_planned": power_at(planned), "ceiling": power_at(np.inf)}
    prompts = smallest_number(power_at, power, precision=PRECISION) if result["ceiling"] >= power else None
    if prompts is None:
        return result | {"reason": CEILING}
    reached = power_at(prompts)
    error = float(np.sqrt(reached * (1 - reached) / simulations))
    images = (2 * words + references) * prompts * seeds
    return result | {"prompts": prompts, "images": images, "power": reached, "power_error": error}
