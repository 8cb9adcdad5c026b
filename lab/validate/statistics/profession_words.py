"""Differences between words in an audit of professions: how often one is told that is none, and how many are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.sign_flips import sign_flip_test
from analysis.stats.step_down import step_down_test
from lab.templates import render
from lab.validate.statistics.profession_pages import DRAWS, PAIRS, SPREAD, WORDS, printed, word_differences
from lab.validate.statistics.simulation import ALPHA

ATTRIBUTES = 15
COMMON, NOISE = 0.1, 0.5  # shares of variance, as of whole pages
ALONE = "attributes of a pair by themselves, gender and tone alone"
HOLM, SINGLE, STEPS = "all, Holm", "all, max-T", "all, max-T step by step †"
SWAPS = "all, words change places within noises"
BOTH = "all, the larger of professions and noises †"
METHODS = (ALONE, HOLM, SINGLE, STEPS, SWAPS, BOTH)


@dataclass(frozen=True)
class ReadWorld:
    """What is read of three words; arrays of shape (professions, words) and (professions, words, attributes).

    Attributes
    ----------
    female, attributes : ndarray of float64
        Frequencies.
    true : ndarray of bool, shape (pairs × questions,)
        Where words differ over professions.
    tied : bool
        All attributes of an image hang on one thing.
    apart : float
        Standard deviation by which the words of a profession differ, in favour of none over professions.
    together : float
        Share of what is an image's own that the professions share by noise and word.
    """

    female: NDArray[np.float64]
    attributes: NDArray[np.float64]
    true: NDArray[np.bool_]
    tied: bool = False
    apart: float = 0.0
    together: float = 0.0


def word_worlds() -> Iterator[tuple[str, ReadWorld]]:
    """Yield worlds with their names."""
    share = np.random.default_rng(1).uniform(0.02, 0.4, ATTRIBUTES)

    def nothing(number: int) -> ReadWorld:
        same = np.broadcast_to(share, (number, WORDS, ATTRIBUTES)).copy()
        return ReadWorld(np.full((number, WORDS), 0.5), same, np.zeros(len(PAIRS) * (ATTRIBUTES + 2), bool))

    for number in (6, 20):
        yield f"nothing, {number} professions", nothing(number)
    none = nothing(20)
    yield "nothing, attributes tied", replace(none, attributes=np.full_like(none.attributes, 0.2), tied=True)
    yield "nothing, attributes in 0.2 to 2 %", replace(none, attributes=none.attributes / 20)
    yield "nothing over professions, words apart in each", replace(none, apart=0.5)
    for number in (6, 20):
        yield f"gender, {number} professions", _differ(nothing(number), {})
    yield "gender, attributes tied", replace(_differ(none, {}), tied=True)
    yield "gender, one attribute .20 and .35", _differ(none, {0: 0.35})
    yield "gender, three attributes .20 and .35", _differ(none, dict.fromkeys(range(3), 0.35))
    for model in ("minDALL-E", "Stable Diffusion"):
        yield f"as printed, {model}, 20 professions", _printed(model)
    yield "nothing, noise that professions share", replace(none, together=0.3)
    yield (
        "nothing over professions, words apart in each, noise that professions share",
        replace(none, together=0.3, apart=0.5),
    )
    yield (
        "gender, one attribute .20 and .40, noise that professions share",
        replace(_differ(none, {0: 0.4}), together=0.3),
    )


def _differ(world: ReadWorld, raised: dict[int, float]) -> ReadWorld:
    """Return the world in which words decide gender, and the third some attributes."""
    attributes, true = world.attributes.copy(), world.true.reshape(len(PAIRS), -1).copy()
    true[:, 0] = True
    for place, frequency in raised.items():
        attributes[:, :, place] = 0.2
        attributes[:, 2, place] = frequency
        true[[number for number, pair in enumerate(PAIRS) if 2 in pair], 2 + place] = True
    female = np.tile([0.5, 1.0, 0.0], (len(world.female), 1))
    return ReadWorld(female, attributes, true.ravel())


def _printed(model: str) -> ReadWorld:
    world = printed(model).first(20)
    ends = np.ones(20), np.zeros(20)
    female = np.stack([world.female, *ends], axis=1)
    gender, attributes = female.mean(axis=0), world.attributes.mean(axis=0)
    true = [
        [abs(gender[one] - gender[other]) > 0, False, *(np.abs(attributes[one] - attributes[other]) > 0)]
        for one, other in PAIRS
    ]
    return ReadWorld(female, world.attributes, np.ravel(true))


def draw_words(world: ReadWorld, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw what is read of images, (professions, draws, words, questions): gender, tone, attributes."""
    number, _, questions = world.attributes.shape
    size = (number, DRAWS, WORDS, questions + 2)
    rows = 1 if world.together else number
    own = np.sqrt(1 - world.together) * rng.standard_normal(size)
    if world.together:
        own += np.sqrt(world.together) * rng.standard_normal((1, *size[1:]))
    latent = np.sqrt(COMMON) * rng.standard_normal((rows, DRAWS, 1, 1))
    latent = latent + np.sqrt(NOISE) * rng.standard_normal((rows, DRAWS, 1, questions + 2))
    latent = latent + np.sqrt(1 - COMMON - NOISE) * own
    if world.tied:
        latent[..., 2:] = latent[..., 2:3]
    if world.apart:
        latent += world.apart * rng.standard_normal((number, 1, WORDS, questions + 2))
        latent /= np.sqrt(1 + world.apart**2)
    level = stats.norm.cdf(latent)
    gender = np.where(level[..., 0] < world.female[:, None], 1.0, -1.0)
    tone = np.clip(np.round(5.5 + SPREAD * latent[..., 1]), 1, 10)
    attributes = level[..., 2:] < world.attributes[:, None]
    return np.concatenate([gender[..., None], tone[..., None], attributes], axis=3)


def word_p_values(read: NDArray[np.float64], permutations: int, seed: int) -> dict[str, NDArray]:
    """Return adjusted p-values of pairs and questions by method, 1 where nothing differs.

    Parameters
    ----------
    read : ndarray of float64, shape (professions, draws, words, questions)
    """
    options = {"permutations": permutations, "seed": seed}
    apart = word_differences(read)
    each = apart.mean(axis=1)
    steps = step_down_test(each, **options)
    families = np.arange(each.shape[1]).reshape(len(PAIRS), -1)
    alone = steps.p_value.copy()
    for columns in families:
        own = columns[2:]
        alone[own] = sign_flip_test(each[:, own], **options).p_adjusted
    single = sign_flip_test(each, **options).p_adjusted
    noises = step_down_test(apart.mean(axis=0), **options)
    images = step_down_test(apart.reshape(-1, apart.shape[2]), **options)
    found = {
        ALONE: alone,
        HOLM: adjust_p_values(steps.p_value, method="holm"),
        SINGLE: np.where(np.isnan(single), steps.p_adjusted, single),
        STEPS: steps.p_adjusted,
        SWAPS: images.p_adjusted,
        BOTH: np.maximum(steps.p_adjusted, noises.p_adjusted),
    }
    return {name: np.nan_to_num(p, nan=1.0) for name, p in found.items()}


def word_rows(*, simulations: int = 300, permutations: int = 3999, seed: int = 0) -> pd.DataFrame:
    """Return by world and method how many pages tell a false difference, and how many true ones a page tells."""
    rows = []
    for number, (name, world) in enumerate(word_worlds()):
        rng = np.random.default_rng([seed, 1600 + number])
        pages = [word_p_values(draw_words(world, rng), permutations, one) for one in range(simulations)]
        for method in METHODS:
            told = np.array([page[method] <= ALPHA for page in pages])
            rows.append(
                {
                    "world": name,
                    "method": method,
                    "false": float(told[:, ~world.true].any(axis=1).mean()),
                    "found": float(told[:, world.true].sum(axis=1).mean()),
                    "true": int(world.true.sum()),
                }
            )
    return pd.DataFrame(rows)


def word_section(*, simulations: int = 300, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on differences between words, in Markdown."""
    table = word_rows(simulations=simulations, seed=seed)
    worlds = [own.set_index("method") for _, own in table.groupby("world", sort=False)]
    rows = [
        {
            "world": own["world"].iloc[0],
            "true": own["true"].iloc[0],
            "cells": own.loc[list(METHODS)].to_dict("records"),
        }
        for own in worlds
    ]
    return render("statistics_profession_words", rows=rows, methods=METHODS, simulations=simulations)
