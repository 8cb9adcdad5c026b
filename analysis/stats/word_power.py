r"""Power of the test against words, which more prompts alone do not raise.

The test of `analysis.stats.word_test.word_test` holds a gap against the error of three samples: the words of the sides,
the words of the reference, and the prompts. Only the last falls with more prompts, so that power has a ceiling which
words set: with two words a side and two degrees of freedom it is low however many prompts are drawn.
"""

from __future__ import annotations

from math import nan

import numpy as np
from scipy import special

from analysis.stats.crossed import crossed_bound
from analysis.stats.sample_size import NO_GAP, smallest_number

WORD_POWER_COLUMNS = (
    "gap",
    "sd_prompt",
    "sd_seed",
    "sd_word",
    "sd_reference",
    "seeds",
    "words",
    "references",
    "planned",
    "power_planned",
    "ceiling",
    "prompts",
    "images",
    "power",
    "power_error",
    "reason",
)
CEILING = "words: no number of prompts reaches this power"
ONE_WORD = "words: one a side gives no test against words"
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
    r"""Return the simulated power of the two-sided test against words for normal words, reference words and prompts.

    Parameters
    ----------
    gap : float
        Mean gap over all words of their meaning.
    n_prompts : float
        At least 2; infinity gives the ceiling.
    spread : float
        Standard deviation of the gap between prompts, over the seeds of a prompt.
    words, references : int
        Words of each side, and of the reference. A single reference word is taken as it is.
    sd_word : float
        Standard deviation, between words of one side, of their nearness to the reference.
    sd_reference : float
        Standard deviation of the gap between reference words.
    alpha, simulations, seed

    Examples
    --------
    Words that do not differ leave Student's t of the prompts: 34 of them show half a standard deviation.

    >>> round(word_gap_power(0.5, 34, spread=1.0, words=3, references=1, sd_word=0.0), 1)
    0.8
    """
    if words < 2:
        return nan
    rng = np.random.default_rng([seed, words, references])
    mean = rng.standard_normal((3, simulations))
    scaled = rng.random((3, simulations))  # as quantiles, so that sizes are compared on the same draws
    sizes = np.array([sd_word**2 * 2 / words, sd_reference**2 / references, spread**2 / n_prompts])
    freedom = [2 * (words - 1), references - 1, n_prompts - 1]
    observed = gap + np.sqrt(sizes) @ mean if np.isfinite(n_prompts) else gap + np.sqrt(sizes[:2]) @ mean[:2]
    variances = [
        (size * special.chdtri(degrees, quantile) / degrees, degrees)
        for size, degrees, quantile in zip(sizes, freedom, scaled)
        if degrees > 0 and np.isfinite(degrees)
    ]
    return float((observed**2 >= crossed_bound(alpha, variances)).mean())


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
    >>> two["reason"], five["prompts"] > 34
    ('words: no number of prompts reaches this power', True)
    """
    result = dict.fromkeys(WORD_POWER_COLUMNS, nan) | {
        "gap": gap,
        "sd_prompt": sd_prompt,
        "sd_seed": sd_seed,
        "sd_word": sd_word,
        "sd_reference": sd_reference,
        "seeds": seeds,
        "words": words,
        "references": references,
        "planned": planned,
        "reason": "",
    }
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
