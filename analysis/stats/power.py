"""Power: how many prompts, seeds or items it takes to find a difference.

For a paired gap in closed form (noncentral t), for the presence of an object by simulation of the exact paired test,
for shares by the exact binomial test; for a gap beyond what the choice of words makes see `analysis.stats.word_power`.
Seeds average out noise within a prompt and nothing else: beyond a few, only prompts and words help.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, nan

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from analysis.stats.permutation import flip_p_values

GAP_COLUMNS = ("gap", "sd_prompt", "sd_seed", "seeds", "d_z", "prompts", "images", "power", "reason")
PRESENCE_COLUMNS = (
    *("frequency", "difference", "noise", "seeds", "prompts", "images", "power", "power_error", "reason"),
)
NO_GAP = "no difference: no number of prompts shows it"
TOO_MANY = "more prompts or images than can be simulated"
FEWEST_PROMPTS = 2
LARGEST = 10_000_000  # prompts that are searched
SIMULATED = 20_000  # most prompts of a simulated presence
SIMULATED_IMAGES = 4_000_000  # of both words, all drawn at once
PRECISION = 1e-4  # of a smallest detectable share
_ROUNDING = 1e-7  # numbers as likely as one, up to this share, count as well


def smallest_number(power_at: Callable[[int], float], power: float, *, precision: float = 0.0) -> int | None:
    """Return the smallest number of prompts, from `FEWEST_PROMPTS`, at which a power that rises with it is reached.

    None where `LARGEST` prompts do not reach it; with a precision, known to this share of itself.
    """
    low, high = FEWEST_PROMPTS - 1, FEWEST_PROMPTS
    while power_at(high) < power:
        low, high = high, 2 * high
        if high > LARGEST:
            return None
    while high - low > max(1, ceil(precision * low)):
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= power else (middle, high)
    return high


def gap_power(d_z: float, n_prompts: int, *, alpha: float = 0.05) -> float:
    r"""Return the power of the two-sided paired t-test, :math:`P(|T_{n-1}(d_z \sqrt n)| > t_{1-\alpha/2})`."""
    if n_prompts < 2:
        return nan
    edge, shift = stats.t.isf(alpha / 2, n_prompts - 1), abs(d_z) * np.sqrt(n_prompts)
    upper = stats.norm.sf(edge - shift) if shift > 30 else stats.nct.sf(edge, n_prompts - 1, shift)
    lower = 0.0 if shift > 5 else stats.nct.cdf(-edge, n_prompts - 1, shift)
    return float(upper + lower)


def prompts_for_gap(
    gap: float,
    *,
    sd_prompt: float,
    sd_seed: float = 0.0,
    seeds: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> dict:
    r"""Return how many prompts show a mean gap, with the keys `GAP_COLUMNS`; NaN with a reason where none do.

    The least n for :math:`d_z = g / \sqrt{\sigma_p^2 + \sigma_s^2 / S}`, of standard deviations between prompts and
    between S seeds of a prompt; ``images`` are those of three words. Divide alpha by the number of sites and steps for
    a family (Bonferroni; max-T needs no more).

    >>> prompts_for_gap(0.5, sd_prompt=1.0)["prompts"]
    34
    """
    spread = float(np.sqrt(sd_prompt**2 + sd_seed**2 / seeds))
    given = {"gap": gap, "sd_prompt": sd_prompt, "sd_seed": sd_seed, "seeds": seeds, "reason": ""}
    result = dict.fromkeys(GAP_COLUMNS, nan) | given
    if gap == 0 or spread == 0:
        return result | {"reason": NO_GAP if gap == 0 else "no variation: one prompt shows it"}
    result["d_z"] = d_z = gap / spread
    prompts = smallest_number(lambda n_prompts: gap_power(d_z, n_prompts, alpha=alpha), power)
    if prompts is None:
        return result | {"reason": TOO_MANY}
    reached = gap_power(d_z, prompts, alpha=alpha)
    return result | {"prompts": prompts, "images": 3 * prompts * seeds, "power": reached}


def presence_power(
    frequency: float,
    difference: float,
    n_prompts: int,
    seeds: int,
    *,
    prompt: float,
    interaction: float,
    noise: float,
    alpha: float = 0.05,
    simulations: int = 2000,
    seed: int = 0,
) -> float:
    """Return the simulated power of the exact paired test, with images that share parts of a normal variable."""
    rng = np.random.default_rng([seed, n_prompts, seeds])
    edges = special.ndtri([frequency, frequency + difference])
    rejected, done = 0, 0
    while done < simulations:
        block = min(simulations - done, max(1, SIMULATED_IMAGES // (n_prompts * seeds * 2)))
        latent = np.sqrt(1 - prompt - interaction - noise) * rng.standard_normal((block, n_prompts, seeds, 2))
        for share, size in ((prompt, (1, 1)), (interaction, (1, 2)), (noise, (seeds, 1))):
            if share:
                latent += np.sqrt(share) * rng.standard_normal((block, n_prompts, *size))
        present = (latent < edges).sum(axis=2)
        rejected += int((flip_p_values((present[..., 1] - present[..., 0]).T) <= alpha).sum())
        done += block
    return rejected / simulations


def prompts_for_presence(
    frequency: float,
    difference: float,
    *,
    seeds: int = 1,
    prompt: float = 0.3,
    interaction: float = 0.1,
    noise: float = 0.2,
    power: float = 0.8,
    alpha: float = 0.05,
    simulations: int = 2000,
    seed: int = 0,
) -> dict:
    """Return how many prompts show a difference of presence of an object between two words, as `PRESENCE_COLUMNS`.

    `frequency` is the share of the images of one word that have the object, that of the other higher by `difference`;
    `prompt`, `interaction` and `noise` are shares of the variance that images of a prompt have in common, of a prompt
    and word, and of a seed. The number is known to 5 %. ValueError if a frequency is not between 0 and 1.
    """
    if not (0 < frequency < 1 and 0 < frequency + difference < 1):
        raise ValueError(
            f"frequency and difference: expected both frequencies between 0 and 1, got {frequency}, {difference}"
        )
    given = {"frequency": frequency, "difference": difference, "noise": noise, "seeds": seeds, "reason": ""}
    result = dict.fromkeys(PRESENCE_COLUMNS, nan) | given
    if difference == 0:
        return result | {"reason": NO_GAP}
    most = min(SIMULATED, SIMULATED_IMAGES // (2 * seeds))
    shares = {"prompt": prompt, "interaction": interaction, "noise": noise}
    options = {**shares, "alpha": alpha, "simulations": simulations, "seed": seed}

    def power_at(n_prompts: int) -> float:
        return (
            presence_power(frequency, difference, n_prompts, seeds, **options) if n_prompts <= most else 1.0
        )

    n_prompts = smallest_number(power_at, power, precision=0.05)
    if n_prompts > most:
        return result | {"reason": TOO_MANY}
    reached = power_at(n_prompts)
    error = float(np.sqrt(reached * (1 - reached) / simulations))
    counts = {"prompts": n_prompts, "images": 3 * n_prompts * seeds}
    return result | counts | {"power": reached, "power_error": error}


def binomial_power(share: float, n: int, reference: float, alpha: float) -> float:
    """Return the power of the exact two-sided binomial test."""
    return float(stats.binom.pmf(_rejected(n, reference, alpha), n, share).sum())


@lru_cache(maxsize=4096)
def _rejected(n: int, reference: float, alpha: float) -> NDArray[np.int64]:
    """Numbers of successes at which the exact test rejects."""
    likely = stats.binom.pmf(np.arange(n + 1), n, reference)
    order = np.argsort(likely, kind="stable")
    sums = np.cumsum(likely[order])
    last = np.searchsorted(likely[order], likely * (1 + _ROUNDING), side="right") - 1
    return np.flatnonzero(sums[last] <= alpha)


def detectable_share(n: int, reference: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return how far a share must be from the reference for `n` items to tell it, on the side that has more room.

    NaN where not even a share of 0 or 1 is told.
    """
    end = 1.0 if reference <= 0.5 else 0.0
    if binomial_power(end, n, reference, alpha) < power:
        return nan
    near, far = 0.0, abs(end - reference)
    while far - near > PRECISION:
        middle = (near + far) / 2
        reached = binomial_power(reference + np.sign(end - reference) * middle, n, reference, alpha) >= power
        near, far = (near, middle) if reached else (middle, far)
    return far


def items_for_share(share: float, reference: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest number of items with which a share is told from the reference; NaN where none is."""
    if share == reference:
        return nan
    found = smallest_number(lambda n: binomial_power(share, n, reference, alpha), power)
    return nan if found is None else float(found)
