r"""Power of the test against words, which more prompts alone do not raise.

The test of `analysis.stats.word_test.word_test` holds a gap against the error of three samples: the words of the sides,
the words of the reference, and the prompts. Only the last falls with more prompts, so that power has a ceiling which
words set: with two words a side and two degrees of freedom it is low however many prompts are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
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
KEPT = 64  # quantiles of χ² that are kept of some draws
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
    normal, chi_square = _error_draws(simulations, (seed, words, references))
    of_side = sd_word**2 / words
    variances = [of_side, of_side, sd_reference**2 / references, spread**2 / n_prompts]
    freedom = [words - 1, words - 1, references - 1, n_prompts - 1]
    observed = gap + np.sqrt(variances) @ normal
    of_words, of_word, of_references, of_prompts = (
        (variance * chi_square(factor, degrees) / degrees, degrees)
        if degrees > 0 and np.isfinite(degrees)  # a single reference word, or endlessly many prompts
        else (np.full(simulations, variance), degrees)
        for factor, (variance, degrees) in enumerate(zip(variances, freedom))
    )
    parts = error_parts([of_words, of_word], (*of_references, of_references[0]), of_prompts)
    return float((observed**2 >= crossed_bound(alpha, parts)).mean())


@lru_cache(maxsize=2)
def _error_draws(simulations: int, seed: tuple[int, ...]) -> tuple[NDArray[np.float64], Callable]:
    """Standard normal errors of the words of either side, reference words and prompts, and their χ² by degrees.

    Drawn as quantiles: designs of different sizes are compared on the same draws. A search asks for the χ² of words
    again and again, and to invert it is all that it takes.
    """
    rng = np.random.default_rng(seed)
    normal, quantiles = rng.standard_normal((4, simulations)), rng.random((4, simulations))
    return normal, lru_cache(KEPT)(lambda factor, degrees: special.chdtri(degrees, quantiles[factor]))


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
    """Return how many prompts show a gap beyond what the choice of words makes, as `WORD_POWER_COLUMNS`.

    Or why none do. As of `analysis.stats.power.prompts_for_gap` and `word_gap_power`; ``power_planned`` is that of so
    many prompts, ``ceiling`` that of endlessly many, ``images`` are those of all words.

    >>> two, five = (prompts_for_words(0.5, sd_prompt=1.0, words=k, references=1) for k in (2, 5))
    >>> two["reason"], two["ceiling"] < five["ceiling"] < 1
    ('words: no number of prompts reaches this power', True)
    """
    spreads = {"sd_prompt": sd_prompt, "sd_seed": sd_seed, "sd_word": sd_word, "sd_reference": sd_reference}
    counts = {"seeds": seeds, "words": words, "references": references, "planned": planned}
    result = dict.fromkeys(WORD_POWER_COLUMNS, nan) | {"gap": gap, **spreads, **counts, "reason": ""}
    if gap == 0 or words < 2:
        return result | {"reason": NO_GAP if gap == 0 else ONE_WORD}

    design = {"words": words, "references": references, "sd_word": sd_word, "sd_reference": sd_reference}
    design |= {"spread": float(np.sqrt(sd_prompt**2 + sd_seed**2 / seeds)), "alpha": alpha}
    power_at = partial(word_gap_power, gap, simulations=simulations, seed=seed, **design)
    result |= {"power_planned": power_at(planned), "ceiling": power_at(np.inf)}
    prompts = smallest_number(power_at, power, precision=PRECISION) if result["ceiling"] >= power else None
    if prompts is None:
        return result | {"reason": CEILING}
    reached = power_at(prompts)
    error = float(np.sqrt(reached * (1 - reached) / simulations))
    images = (2 * words + references) * prompts * seeds
    return result | {"prompts": prompts, "images": images, "power": reached, "power_error": error}
