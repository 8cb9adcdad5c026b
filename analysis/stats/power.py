"""Power: how many prompts and seeds it takes to find a difference.

For a paired gap in closed form (noncentral t), for a gap beyond what the choice of words makes by simulation of that
test (more prompts do not help where words are few), for the presence of an object from the normal distribution, then
raised by simulation until the exact paired test has the power. Seeds average out noise within a prompt and nothing
else: beyond a few, only prompts and words help.
"""

from __future__ import annotations

from math import ceil, nan

import numpy as np
from scipy import special, stats

from analysis.stats.object_tests import paired_presence_test
from analysis.stats.sample_size import NO_GAP, smallest_number
from analysis.stats.worlds import ObjectWorld, draw_table

GAP_COLUMNS = ("gap", "sd_prompt", "sd_seed", "seeds", "d_z", "prompts", "images", "power", "reason")
PRESENCE_COLUMNS = (
    "frequency",
    "difference",
    "noise",
    "seeds",
    "prompts",
    "images",
    "power",
    "power_error",
    "reason",
)
TOO_MANY = "more prompts or images than can be simulated"
SIMULATED = 20_000  # most prompts of a simulated presence
SIMULATED_IMAGES = 4_000_000  # of both words, all drawn at once


def gap_power(d_z: float, n_prompts: int, *, alpha: float = 0.05) -> float:
    r"""Power of the two-sided paired t-test, :math:`P(|T_{n-1}(d_z \sqrt n)| > t_{1-\alpha/2})`."""
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
    r"""Return how many prompts show a mean gap: :math:`d_z = g / \sqrt{\sigma_p^2 + \sigma_s^2 / S}` and the least n.

    Parameters
    ----------
    gap : float
        In the units of the metric.
    sd_prompt, sd_seed : float
        Standard deviation of the gap between prompts, and between seeds of a prompt.
    seeds : int
        S, images of each word and prompt.
    power, alpha : float
        Divide alpha by the number of sites and steps for a family (Bonferroni; max-T needs no more).

    Returns
    -------
    dict
        With the keys `GAP_COLUMNS`; ``images`` are those of three words. NaN with a reason where the gap is 0.

    Examples
    --------
    >>> prompts_for_gap(0.5, sd_prompt=1.0)["prompts"]
    34
    """
    spread = float(np.sqrt(sd_prompt**2 + sd_seed**2 / seeds))
    result = dict.fromkeys(GAP_COLUMNS, nan) | {
        "gap": gap,
        "sd_prompt": sd_prompt,
        "sd_seed": sd_seed,
        "seeds": seeds,
        "reason": "",
    }
    if gap == 0 or spread == 0:
        return result | {"reason": NO_GAP if gap == 0 else "no variation: one prompt shows it"}
    result["d_z"] = d_z = gap / spread
    prompts = smallest_number(lambda n_prompts: gap_power(d_z, n_prompts, alpha=alpha), power)
    if prompts is None:
        return result | {"reason": TOO_MANY}
    reached = gap_power(d_z, prompts, alpha=alpha)
    return result | {"prompts": prompts, "images": 3 * prompts * seeds, "power": reached}


def presence_spread(frequency: float, difference: float, world: ObjectWorld) -> float:
    """Standard deviation over prompts of the difference of two words' presence, averaged over seeds."""
    p = np.array([frequency, frequency + difference])
    edges = special.ndtri(p)

    def both(first: int, second: int, shared: float) -> float:
        cov = [[1, shared], [shared, 1]]
        point = [edges[first], edges[second]]
        return (
            float(stats.multivariate_normal([0, 0], cov).cdf(point))
            if shared
            else float(p[first] * p[second])
        )

    s = world.n_seeds
    of_word = world.prompt + world.interaction  # what two images of one word and prompt share
    mean = [(p[g] + (s - 1) * both(g, g, of_word)) / s - p[g] ** 2 for g in (0, 1)]
    across = both(0, 1, world.prompt + world.noise) + (s - 1) * both(0, 1, world.prompt)
    return float(np.sqrt(max(sum(mean) - 2 * (across / s - p[0] * p[1]), 0.0)))


def presence_power(
    frequency: float,
    difference: float,
    world: ObjectWorld,
    *,
    alpha: float = 0.05,
    simulations: int = 2000,
    seed: int = 0,
) -> float:
    """Simulated power of `paired_presence_test`; ``world`` gives prompts, seeds and what they share."""
    rng = np.random.default_rng([seed, world.n_prompts, world.n_seeds])
    rejected, done = 0, 0
    while done < simulations:
        block = min(simulations - done, max(1, SIMULATED_IMAGES // (world.n_prompts * world.n_seeds * 2)))
        shift = (1.0, (frequency + difference) / frequency)
        table = draw_table(world, block, rng, shift=shift)
        rejected += int((paired_presence_test(table, "feminine", "masculine").p_value <= alpha).sum())
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
    """Return how many prompts show a difference of presence of one object between two words.

    Parameters
    ----------
    frequency, difference : float
        Share of the images of one word that have the object, and how much higher that of the other is.
    seeds : int
    prompt, interaction, noise : float
        Shares of the variance that images have in common, see `analysis.stats.worlds.ObjectWorld`.
    power, alpha : float
        Divide alpha by the number of objects for a family (Bonferroni).
    simulations, seed : int

    Returns
    -------
    dict
        With the keys `PRESENCE_COLUMNS`. The number of prompts starts from the normal distribution and is raised by
        5 % until the simulated power of the exact test reaches `power`.

    Raises
    ------
    ValueError
        One of the two frequencies is not between 0 and 1.
    """
    if not (0 < frequency < 1 and 0 < frequency + difference < 1):
        raise ValueError(
            f"frequency and difference: expected both frequencies between 0 and 1, got {frequency}, {difference}"
        )
    result = dict.fromkeys(PRESENCE_COLUMNS, nan) | {
        "frequency": frequency,
        "difference": difference,
        "noise": noise,
        "seeds": seeds,
        "reason": "",
    }
    if difference == 0:
        return result | {"reason": NO_GAP}

    def world(n_prompts: int) -> ObjectWorld:
        return ObjectWorld("", prompt, interaction, noise, frequency, 0.0, n_prompts, seeds)

    spread = presence_spread(frequency, difference, world(2))
    quantiles = stats.norm.isf(alpha / 2) + stats.norm.ppf(power)
    n_prompts = max(2, ceil((quantiles * spread / difference) ** 2))
    while n_prompts <= min(SIMULATED, SIMULATED_IMAGES // (2 * seeds)):
        reached = presence_power(
            frequency, difference, world(n_prompts), alpha=alpha, simulations=simulations, seed=seed
        )
        if reached >= power:
            error = float(np.sqrt(reached * (1 - reached) / simulations))
            images = 3 * n_prompts * seeds
            return result | {
                "prompts": n_prompts,
                "images": images,
                "power": reached,
                "power_error": error,
            }
        n_prompts = max(n_prompts + 1, ceil(1.05 * n_prompts))
    return result | {"reason": TOO_MANY}
