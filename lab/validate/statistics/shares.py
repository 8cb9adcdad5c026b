"""Coverage of intervals of shares, and level of the test beyond the floor, in worlds of made-up verdicts.

A masculine image's verdict is normal about 6.3 (s.d. 3.2), a feminine one's about −8.7 (4.3), as simulated from what
is planted for toyworld; the reference draws the masculine image at seven prompts in ten, else the feminine one, of the
same noise. A patch moves an image some way towards the donor's (by degrees), or wholly at some prompts (all or none).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.decision_curve import decision_curve
from analysis.stats.intervals import bootstrap_interval
from analysis.stats.resampling import moments
from analysis.stats.shares import beyond_floor, shares
from lab.validate.statistics.simulation import COLUMNS, covered_row, rejection_row

MASCULINE, FEMININE = (6.3, 3.2), (-8.7, 4.3)
LEAN, NOISE = 0.7, 2.0
DEGREES, WHOLLY = "by degrees", "all or none"
WORLDS = (
    *((DEGREES, share, donor) for share in (0.1, 0.5, 0.9) for donor in ("both", "feminine")),
    *((WHOLLY, share, "both") for share in (0.1, 0.5, 0.9)),
)
SIZES = (24, 48)
STEPS, ENTRIES = 10, (0, 2, 4, 6, 8)
PLACES = 7
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw_outcomes(shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Verdicts of the masculine, the feminine and the reference's image of each prompt."""
    masculine, feminine = rng.normal(*MASCULINE, shape), rng.normal(*FEMININE, shape)
    neutral = np.where(rng.random(shape) < LEAN, masculine, feminine)
    return {"masculine": masculine, "feminine": feminine, "neutral": neutral}


def draw_effects(
    kind: str, share: float, donor: str, shape: tuple[int, ...], rng: np.random.Generator
) -> Pair:
    """Effects of a patch with this share, and total effects, both of this shape."""
    plain = draw_outcomes(shape, rng)

    def moved(word: str) -> NDArray[np.float64]:
        if kind == WHOLLY:
            part, noise = (rng.random(shape) < share).astype(float), 0.0
        else:
            part, noise = rng.beta(3 * share, 3 * (1 - share), shape), NOISE * rng.standard_normal(shape)
        return part * (plain[word] - plain["neutral"]) + noise

    if donor == "both":
        return moved("masculine") - moved("feminine"), plain["masculine"] - plain["feminine"]
    return moved(donor), plain[donor] - plain["neutral"]


def share_coverage(
    *, simulations: int = 2000, resamples: int = 999, sizes: tuple[int, ...] = SIZES, seed: int = 0
) -> pd.DataFrame:
    """Return how often 95 % intervals of a share cover it; one row per world and interval."""
    rows = []
    for number, (n, (kind, share, donor)) in enumerate((n, world) for n in sizes for world in WORLDS):
        rng = np.random.default_rng([seed, 800 + number])
        effects, totals = draw_effects(kind, share, donor, (n, simulations), rng)
        whose = "both words" if donor == "both" else "one word"
        world = f"{kind}, share {share:g}, {whose}, {n} prompts"
        found = shares(effects, totals, resamples=resamples, seed=number)
        rows.append(covered_row(world, "share", share, found))
        rows.append(covered_row(world, "share, Fieller", share, fieller_ends(effects, totals)))
        with np.errstate(invalid="ignore"):
            values = found.share + (effects - found.share * totals) / totals.mean(axis=0)
        bca = bootstrap_interval(values, method="bca", resamples=resamples, seed=number)
        rows.append(covered_row(world, "share, bca", share, bca))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def fieller_ends(effects: NDArray[np.float64], totals: NDArray[np.float64], level: float = 0.95) -> Pair:
    """Ends of Fieller's interval of a ratio of means, by Student's t; NaN where it is no interval."""
    n, (_, e, se), (_, t, st) = len(effects), moments(effects), moments(totals)
    square = special.stdtrit(n - 1, (1 + level) / 2) ** 2 / n
    between = ((effects - e) * (totals - t)).sum(axis=0) / (n - 1)
    a, b, c = t**2 - square * st**2, e * t - square * between, e**2 - square * se**2
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(b**2 - a * c)
        defined = a > 0
        return np.where(defined, (b - root) / a, np.nan), np.where(defined, (b + root) / a, np.nan)


def half_step_coverage(
    *, simulations: int = 400, resamples: int = 499, sizes: tuple[int, ...] = SIZES, seed: int = 0
) -> pd.DataFrame:
    """Return how often the interval of the half step covers it, where each prompt is decided at a step of its own."""
    rows = []
    for number, (n, chance) in enumerate((n, chance) for n in sizes for chance in (0.25, 0.5)):
        rng, ends = np.random.default_rng([seed, 850 + number]), []
        true = _true_half(chance)
        for one in range(simulations):
            plain = draw_outcomes((n,), rng)
            totals = plain["masculine"] - plain["feminine"]
            when = rng.binomial(STEPS - 1, chance, n)
            effects = totals[:, None] * (when[:, None] >= np.array(ENTRIES))
            found = decision_curve(effects, totals, ENTRIES, STEPS, resamples=resamples, seed=one)
            ends.append((found.half_low, found.half_high))
        low, high = np.array(ends).T
        world = f"decided about step {(STEPS - 1) * chance:.2g}, {n} prompts"
        rows.append(covered_row(world, "half step", true, (low, high)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _true_half(chance: float) -> float:
    """Return where the curve of all prompts, interpolated between the entries, falls to ½."""
    from scipy import stats

    curve = [*stats.binom.sf(np.array(ENTRIES) - 1, STEPS - 1, chance), 0.0]
    return float(np.interp(0.5, curve[::-1], [*ENTRIES, STEPS][::-1]))


def floor_rejections(
    *, maps: int = 1000, resamples: int = 199, sizes: tuple[int, ...] = SIZES, seed: int = 0
) -> pd.DataFrame:
    """Return how often any place of a map is called beyond the floor, where the donor does no more than the synonym."""
    rows = []
    for number, (n, less) in enumerate((n, less) for n in sizes for less in (False, True)):
        rng, smallest = np.random.default_rng([seed, 870 + number]), []
        for one in range(maps):
            outcomes = draw_outcomes((n, 1), rng)
            drawn = [_synonym(outcomes["neutral"], rng) for _ in range(2)]
            effects = (0.2 if less else 1.0) * drawn[0]
            totals = outcomes["masculine"] - outcomes["feminine"]
            found = beyond_floor(effects, totals, drawn[1], resamples=resamples, seed=one)
            smallest.append(np.fmin.reduce(found.p_adjusted))
        name = "a synonym does more" if less else "a synonym does as much"
        test = f"beyond the floor, any of {PLACES}"
        rows.append(rejection_row(f"{name}, {n} prompts", test, True, np.array(smallest)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _synonym(plain: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return what another word of one meaning does at each place: it draws some images anew, and moves all a little."""
    shape = (len(plain), PLACES)
    anew = draw_outcomes(shape, rng)["neutral"]
    return (rng.random(shape) < 0.2) * (anew - plain) + 0.8 + rng.standard_normal(shape)
