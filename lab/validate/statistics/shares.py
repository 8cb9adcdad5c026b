"""Coverage of intervals of shares, and level of the test beyond the floor, in worlds of made-up verdicts.

A masculine image's verdict is normal about 6.3 (s.d. 3.2), a feminine one's about −8.7 (4.3), as simulated from what
is planted for toyworld; the reference draws the masculine image at seven prompts in ten, else the feminine one, of the
same noise. A patch moves an image some way towards the donor's (by degrees), or wholly at some prompts (all or none).

Traces that are *reported because their total effect was told from 0* have one of few standard errors; a patch does half
of the expected effect in every prompt (fixed), or half of each prompt's own (in proportion). Of seven places the
*largest share* is picked. *Two places* of three decide: apart from one another, either alone, or both needed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import Effects, effects, variant_table
from analysis.methods.tracing.findings import DEPENDENT, REDUNDANT, interplay
from analysis.methods.tracing.shares import INTERACTION, share_table
from analysis.stats.shares import beyond_floor, shares
from lab.validate.statistics.simulation import COLUMNS, covered_row, rejection_row
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant

MASCULINE, FEMININE = (6.3, 3.2), (-8.7, 4.3)
CONTRAST = ("masculine", "feminine")
LEAN, NOISE = 0.7, 2.0
DEGREES, WHOLLY = "by degrees", "all or none"
WORLDS = (
    *((DEGREES, share, donor) for share in (0.1, 0.5, 0.9) for donor in ("both", "feminine")),
    *((WHOLLY, share, "both") for share in (0.1, 0.5, 0.9)),
)
SIZES = (24, 48)
PLACES = 7
ERRORS = (1, 2, 3, 5)  # of the total effect, in its standard errors
FIXED, OWN = "fixed", "in proportion"
SHARES_OF_PLACES = {"seven alike": (0.2,) * 7, "one of seven larger": (0.5, *(0.1,) * 6)}
APART, OPPOSING = "apart", "opposing"
# outcome by how far two places are given the donor's word
TWO_PLACES = {
    APART: lambda a, b: 6.0 * a + 4.0 * b,
    REDUNDANT: lambda a, b: 10.0 * np.maximum(np.maximum(0.9 * a, 0.8 * b), a * b),
    DEPENDENT: lambda a, b: 10.0 * a * b,
    OPPOSING: lambda a, b: 21.2 * a - 12.0 * b,
}
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
        ends = [_ends(*pair, resamples, number) for pair in zip(effects.T, totals.T)]
        rows.append(covered_row(world, "share", share, tuple(np.array(ends).T)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _ends(
    effects: NDArray[np.float64], totals: NDArray[np.float64], resamples: int, seed: int
) -> tuple[float, float]:
    """The interval of the share of one patch; NaN where none is stated."""
    found = shares(effects[:, None], totals, resamples=resamples, seed=seed)
    return found.low[0], found.high[0]


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
            totals = (outcomes["masculine"] - outcomes["feminine"])[:, 0]
            found = beyond_floor(effects, totals, drawn[1], resamples=resamples, seed=one)
            smallest.append(np.fmin.reduce(found.p_adjusted))
        name = "a synonym does more" if less else "a synonym does as much"
        test = f"beyond the floor, any of {PLACES}"
        rows.append(rejection_row(f"{name}, {n} prompts", test, True, np.array(smallest)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _synonym(plain: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return what a synonym does at each place: it draws some images anew, and moves all a little."""
    shape = (len(plain), PLACES)
    anew = draw_outcomes(shape, rng)["neutral"]
    return (rng.random(shape) < 0.2) * (anew - plain) + 0.8 + rng.standard_normal(shape)


def selected_coverage(
    *, simulations: int = 500, resamples: int = 499, n: int = 24, seed: int = 0
) -> pd.DataFrame:
    """Return how often 95 % intervals of a share of ½ cover it, of traces whose total effect was told from 0."""
    rows = []
    worlds = [
        (skewed, kind, errors) for skewed in (False, True) for kind in (FIXED, OWN) for errors in ERRORS
    ]
    for number, (skewed, kind, errors) in enumerate(worlds):
        rng, mean = np.random.default_rng([seed, 890 + number]), errors / np.sqrt(n)
        ends: list[tuple[float, float]] = []
        while len(ends) < simulations:
            totals = mean + (rng.exponential(1, n) - 1 if skewed else rng.standard_normal(n))
            effects = 0.5 * (mean if kind == FIXED else totals) + 0.6 * rng.standard_normal(n)
            one = _ends(effects, totals, resamples, number)
            ends += [one] if not np.isnan(one[0]) else []
        name = "skewed" if skewed else "normal"
        world = f"{kind}, {name}, {errors} s.e."
        rows.append(covered_row(world, "selected share", 0.5, tuple(np.array(ends).T)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def largest_coverage(
    *, simulations: int = 250, resamples: int = 199, sizes: tuple[int, ...] = SIZES, seed: int = 0
) -> pd.DataFrame:
    """Return how often 95 % intervals cover the share of the place that has the largest one in the trace."""
    rows = []
    worlds = [(n, kind, name) for n in sizes for kind in (DEGREES, WHOLLY) for name in SHARES_OF_PLACES]
    for number, (n, kind, name) in enumerate(worlds):
        rng, true = np.random.default_rng([seed, 920 + number]), np.array(SHARES_OF_PLACES[name])
        ends = []
        for one in range(simulations):
            plain = draw_outcomes((n, 1), rng)
            totals = plain["masculine"] - plain["feminine"]
            if kind == WHOLLY:
                part = (rng.random((n, PLACES)) < true).astype(float)
            else:
                part = rng.beta(3 * true, 3 * (1 - true), (n, PLACES))
            noise = 0.0 if kind == WHOLLY else NOISE * rng.standard_normal((n, PLACES))
            found = shares(part * totals + noise, totals[:, 0], resamples=resamples, seed=one)
            best = int(np.argmax(np.nan_to_num(found.share, nan=-np.inf)))
            ends.append([true[best], found.low[best], found.high[best]])
        truth, low, high = np.array(ends).T
        world = f"{kind}, {name}, {n} prompts"
        rows.append(covered_row(world, "largest, all at once", truth, (low, high)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def two_place_effects(
    kind: str, rng: np.random.Generator, *, n: int = 24, spread: float = 1.5, wholly: bool = False
) -> Effects:
    """Outcomes of a trace of three places of which two decide (`TWO_PLACES`), patched one by one and all at once.

    Prompts vary by `spread`, images of one prompt by 0.3 of it; `wholly`: a place takes effect wholly or not at all.
    """
    sites = tuple(f"unet.mid.attn.{number}.cross" for number in range(3))
    drawn = rng.random((2, n)) < 0.6 if wholly else 1 + 0.15 * rng.standard_normal((2, n))
    strength, common = drawn.astype(float), spread * rng.standard_normal(n)
    level = {"feminine": 0.0, "masculine": 1.0, "neutral": 0.0}

    def outcome(given: list[str]) -> NDArray[np.float64]:
        values = TWO_PLACES[kind](level[given[0]] * strength[0], level[given[1]] * strength[1])
        return values + common + 0.3 * spread * rng.standard_normal(n)

    variants, values = [Variant(f"none:{word}", "none", word) for word in level], {}
    for name, numbers in (*(("site", [number]) for number in range(3)), ("complete", [0, 1, 2])):
        for word in CONTRAST:
            for recipient, donor in (("neutral", word), (word, "neutral")):
                given = [donor if number in numbers else recipient for number in range(3)]
                patch = Variant(f"{name}:{numbers}:{donor}>{recipient}", name, recipient, donor)
                places = tuple(sites[number] for number in numbers)
                variants.append(replace(patch, sites=places, part=KEYS_AND_VALUES, stop_step=5))
                values[patch.name] = outcome(given)
    values |= {f"none:{word}": outcome([word] * 3) for word in level}
    rows = pd.DataFrame(values).melt(var_name="variant", ignore_index=False)
    rows = rows.rename_axis("triplet").reset_index().assign(seed=0, outcome="verdict", version="made up")
    table = variant_table(pd.DataFrame([one.row() for one in variants]))
    (traced,) = effects(table, rows, "neutral", CONTRAST)
    return traced


def interplay_claims(
    *, simulations: int = 100, resamples: int = 199, n: int = 24, seed: int = 0
) -> pd.DataFrame:
    """Return how often places are called redundant, and how often they are said to need one another, by world."""
    rows = []
    worlds = [(kind, wholly) for kind in TWO_PLACES for wholly in (False, True)]
    for number, (kind, wholly) in enumerate(worlds):
        rng, found = np.random.default_rng([seed, 950 + number]), []
        for one in range(simulations):
            traced = two_place_effects(kind, rng, n=n, wholly=wholly)
            sampling = {"level": 0.95, "resamples": resamples, "seed": one}
            table = share_table([traced], ("site", "complete"), sampling)
            table = table[(table["donor"] == traced.donors[0]) & (table["kind"] == INTERACTION)]
            found.append(interplay({row["estimand"]: row for row in table.to_dict("records")}, 0.05))
        world = f"{kind}, {WHOLLY if wholly else DEGREES}"
        for claim in (REDUNDANT, DEPENDENT):
            p = np.array([0.0 if said == claim else 1.0 for said in found])
            rows.append(rejection_row(world, f"called {claim}", True, p))
    return pd.DataFrame(rows, columns=list(COLUMNS))
