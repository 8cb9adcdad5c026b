"""Sweeps over made-up traces (shares of a total effect, the floor, places together) and activations (linear probes).

A masculine image's verdict is normal about 6.3 (s.d. 3.2), a feminine one's about −8.7 (4.3), as simulated from what
is planted for toyworld; the reference draws the masculine image at seven prompts in ten, else the feminine one, of the
same noise. A patch moves an image some way towards the donor's (by degrees), or wholly at some prompts (all or none).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.decoding.scores import FOLDS, Choice, PlaceRows, cross_validated
from analysis.methods.tracing.effects import Effects, effects, variant_table
from analysis.methods.tracing.findings import DEPENDENT, REDUNDANT, interplay
from analysis.methods.tracing.shares import INTERACTION, share_table
from analysis.stats.auc import across_folds
from analysis.stats.shares import beyond_floor, shares
from lab.validate.statistics.rates import (
    AT_LEAST,
    AT_MOST,
    POWER,
    counted_row,
    covered_row,
    rejection_row,
    sweep,
)
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant

Floats = NDArray[np.float64]
MASCULINE, FEMININE = (6.3, 3.2), (-8.7, 4.3)
CONTRAST = ("masculine", "feminine")
LEAN, NOISE = 0.7, 2.0
DEGREES, WHOLLY = "by degrees", "all or none"
PATCHES = (
    *((DEGREES, share, donor) for share in (0.1, 0.5, 0.9) for donor in ("both", "feminine")),
    *((WHOLLY, share, "both") for share in (0.1, 0.5, 0.9)),
)
SIZES = (24, 48)
PLACES = 7
SHARES_OF_PLACES = {"seven alike": (0.2,) * 7, "one of seven larger": (0.5, *(0.1,) * 6)}
APART, OPPOSING = "apart", "opposing"
# outcome by how far two places are given the donor's word
TWO_PLACES = {
    APART: lambda a, b: 6.0 * a + 4.0 * b,
    REDUNDANT: lambda a, b: 10.0 * np.maximum(np.maximum(0.9 * a, 0.8 * b), a * b),
    DEPENDENT: lambda a, b: 10.0 * a * b,
    OPPOSING: lambda a, b: 21.2 * a - 12.0 * b,
}


def draw_outcomes(shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Floats]:
    """Verdicts of the masculine, the feminine and the reference's image of each prompt."""
    masculine, feminine = rng.normal(*MASCULINE, shape), rng.normal(*FEMININE, shape)
    neutral = np.where(rng.random(shape) < LEAN, masculine, feminine)
    return {"masculine": masculine, "feminine": feminine, "neutral": neutral}


def _parts(
    kind: str, share: float | Floats, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """How far a patch moves each image, and its noise."""
    if kind == WHOLLY:
        return (rng.random(shape) < share).astype(float), np.zeros(shape)
    return rng.beta(3 * share, 3 * (1 - share), shape), NOISE * rng.standard_normal(shape)


def draw_effects(
    kind: str, share: float, donor: str, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Effects of a patch with this share, and total effects, both of this shape."""
    plain = draw_outcomes(shape, rng)

    def moved(word: str) -> Floats:
        part, noise = _parts(kind, share, shape, rng)
        return part * (plain[word] - plain["neutral"]) + noise

    if donor == "both":
        return moved("masculine") - moved("feminine"), plain["masculine"] - plain["feminine"]
    return moved(donor), plain[donor] - plain["neutral"]


def _ends(effects: Floats, totals: Floats, resamples: int, seed: int) -> tuple[float, float]:
    """The interval of the share of one patch; NaN where none is stated."""
    found = shares(effects[:, None], totals, resamples=resamples, seed=seed)
    return found.low[0], found.high[0]


def share_coverage(simulations: int = 250, seed: int = 0, *, resamples: int = 1000) -> pd.DataFrame:
    """How often 95 % intervals of a share cover it."""

    def rows(case: tuple[int, tuple], rng: np.random.Generator, number: int) -> Iterator[tuple]:
        n, (kind, share, donor) = case
        pairs = draw_effects(kind, share, donor, (n, simulations), rng)
        ends = [_ends(*pair, resamples, number) for pair in zip(*(values.T for values in pairs))]
        whose = "both words" if donor == "both" else "one word"
        world = f"{kind}, share {share:g}, {whose}, {n} prompts"
        yield covered_row(world, "share", share, tuple(np.array(ends).T), AT_LEAST)

    return sweep(product(SIZES, PATCHES), rows, 800, seed)


def selected_coverage(simulations: int = 250, seed: int = 0, *, resamples: int = 500) -> pd.DataFrame:
    """How often intervals of a share of ½ cover it, of 24 prompts, in traces whose total effect was told from 0.

    The effect has one to five standard errors; a patch does half of the expected effect in every prompt (fixed), or
    half of each prompt's own (in proportion).
    """

    def rows(case: tuple[str, str, int], rng: np.random.Generator, number: int) -> Iterator[tuple]:
        shape, kind, errors = case
        mean, ends = errors / np.sqrt(24), []
        while len(ends) < simulations:
            totals = mean + (rng.exponential(1, 24) - 1 if shape == "skewed" else rng.standard_normal(24))
            moved = 0.5 * (mean if kind == "fixed" else totals) + 0.6 * rng.standard_normal(24)
            one = _ends(moved, totals, resamples, number)
            ends += [one] if not np.isnan(one[0]) else []
        world = f"{kind}, {shape}, {errors} s.e."
        yield covered_row(world, "share, the effect selected", 0.5, tuple(np.array(ends).T), AT_LEAST)

    worlds = product(("normal", "skewed"), ("fixed", "in proportion"), (1, 2, 3, 5))
    return sweep(worlds, rows, 890, seed)


def largest_coverage(simulations: int = 125, seed: int = 0) -> pd.DataFrame:
    """How often the interval of all places at once covers the share of the place that has the largest one."""

    def rows(case: tuple[int, str, str], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        n, kind, name = case
        true, ends = np.array(SHARES_OF_PLACES[name]), []
        for one in range(simulations):
            plain = draw_outcomes((n, 1), rng)
            totals = plain["masculine"] - plain["feminine"]
            part, noise = _parts(kind, true, (n, PLACES), rng)
            found = shares(part * totals + noise, totals[:, 0], resamples=500, seed=one)
            best = int(np.argmax(np.nan_to_num(found.share, nan=-np.inf)))
            ends.append([true[best], found.low[best], found.high[best]])
        truth, low, high = np.array(ends).T
        test = f"largest of {PLACES} shares, all at once"
        yield covered_row(f"{kind}, {name}, {n} prompts", test, truth, (low, high), AT_LEAST)

    return sweep(product(SIZES, (DEGREES, WHOLLY), SHARES_OF_PLACES), rows, 920, seed)


def floor_rejections(simulations: int = 125, seed: int = 0) -> pd.DataFrame:
    """How often any place of a map is called beyond the floor, where the donor does no more than the synonym."""

    def synonym(plain: Floats, rng: np.random.Generator) -> Floats:
        """What a synonym does at each place: it draws some images anew, and moves all a little."""
        shape = (len(plain), PLACES)
        anew = draw_outcomes(shape, rng)["neutral"]
        return (rng.random(shape) < 0.2) * (anew - plain) + 0.8 + rng.standard_normal(shape)

    def rows(case: tuple[int, bool], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        (n, more), smallest = case, []
        for one in range(simulations):
            outcomes = draw_outcomes((n, 1), rng)
            drawn = [synonym(outcomes["neutral"], rng) for _ in range(2)]
            totals = (outcomes["masculine"] - outcomes["feminine"])[:, 0]
            found = beyond_floor((0.2 if more else 1.0) * drawn[0], totals, drawn[1], resamples=199, seed=one)
            smallest.append(np.fmin.reduce(found.p_adjusted))
        world = f"a synonym does {'more' if more else 'as much'}, {n} prompts"
        yield rejection_row(world, f"beyond the floor, any of {PLACES}", smallest, AT_MOST)

    return sweep(product(SIZES, (False, True)), rows, 870, seed)


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

    def outcome(given: list[str]) -> Floats:
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


def interplay_claims(simulations: int = 62, seed: int = 0, *, resamples: int = 250) -> pd.DataFrame:
    """How often two places are called redundant, or said to need one another, where they are and where they are not."""

    def rows(case: tuple[str, bool], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        (kind, wholly), found = case, []
        for one in range(simulations):
            traced = two_place_effects(kind, rng, wholly=wholly)
            sampling = {"level": 0.95, "resamples": resamples, "seed": one}
            table = share_table([traced], ("site", "complete"), sampling)
            table = table[(table["donor"] == traced.donors[0]) & (table["kind"] == INTERACTION)]
            found.append(interplay({row["estimand"]: row for row in table.to_dict("records")}, 0.05))
        world = f"{kind}, {WHOLLY if wholly else DEGREES}"
        for claim in (REDUNDANT, DEPENDENT):
            right = kind == claim
            test = f"places called {claim}, {'and they are' if right else 'which they are not'}"
            yield counted_row(world, test, [one == claim for one in found], POWER if right else AT_MOST)

    return sweep(product(TWO_PLACES, (False, True)), rows, 950, seed)


PROMPTS, SEEDS = 24, 2


@dataclass(frozen=True)
class ProbeWorld:
    """Activations of two words: noise, what the word adds in one channel, and in a direction of each prompt's own."""

    name: str
    channels: int
    word: float
    own: float = 0.0

    def draw(self, rng: np.random.Generator) -> PlaceRows:
        """Activations of both words at every prompt and seed."""
        prompt = np.repeat(np.arange(PROMPTS), 2 * SEEDS)
        seed = np.tile(np.repeat(np.arange(SEEDS), 2), PROMPTS)
        label = np.tile([0.0, 1.0], PROMPTS * SEEDS)
        x = rng.standard_normal((len(label), self.channels))
        x += rng.standard_normal((PROMPTS, self.channels))[prompt]
        x += self.own * rng.standard_normal((PROMPTS, self.channels))[prompt] * (2 * label - 1)[:, None]
        x[:, 0] += self.word * (label - 0.5)
        return PlaceRows(x, prompt, seed, label)


PROBES = (
    ProbeWorld("nothing, 10 channels", 10, 0.0),
    ProbeWorld("nothing common, 10 channels", 10, 0.0, own=1.0),
    ProbeWorld("nothing common, 64 channels", 64, 0.0, own=1.0),
    ProbeWorld("little, 10 channels", 10, 1.0),
    ProbeWorld("little, each prompt otherwise", 10, 1.0, own=1.0),
    ProbeWorld("much, 10 channels", 10, 2.5),
    ProbeWorld("much, each prompt otherwise", 10, 4.0, own=1.0),
    ProbeWorld("nearly all, 10 channels", 10, 4.0),
)


def probe_coverage(
    simulations: int = 100, seed: int = 0, *, worlds: tuple[ProbeWorld, ...] = PROBES, resamples: int = 1000
) -> tuple[pd.DataFrame, list[dict[str, float | str]]]:
    """How often intervals of accuracy and AUC cover their mean, ½ where nothing is read; and the AUC's width."""
    widths: list[dict[str, float | str]] = []

    def rows(world: ProbeWorld, rng: np.random.Generator, number: int) -> Iterator[tuple]:
        found = []
        for one in range(simulations):
            choice = Choice(resamples=resamples, seed=number * simulations + one)
            found.append(cross_validated(world.draw(rng), choice, widened=False))
        for name, plain in zip(("accuracy", "AUC"), zip(*(one.values() for one in found))):
            mean = float(np.mean([one.value for one in plain]))
            low, high = np.array(
                [(one.low, one.high) for one in (across_folds(one, FOLDS) for one in plain)]
            ).T
            yield covered_row(world.name, f"{name} of a probe", 0.5 if world.word == 0 else mean, (low, high))
            if name == "AUC":
                widths.append({"world": world.name, "auc": mean, "width": float(np.mean(high - low))})

    return sweep(worlds, rows, 1100, seed), widths
