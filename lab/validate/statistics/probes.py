"""Coverage of the intervals of linear probes, in worlds where what they can read is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.decoding.scores import FOLDS, Choice, PlaceRows, cross_validated
from analysis.stats.auc import IntervalEstimate, across_folds
from lab.validate.statistics.simulation import COLUMNS, covered_row

PROMPTS, SEEDS = 24, 2


@dataclass(frozen=True)
class ProbeWorld:
    """Activations of two words: noise, what the word adds in one channel, and in a direction of each prompt's own."""

    name: str
    channels: int
    word: float
    own: float = 0.0


WORLDS = (
    ProbeWorld("nothing, 10 channels", 10, 0.0),
    ProbeWorld("nothing common, 10 channels", 10, 0.0, own=1.0),
    ProbeWorld("nothing common, 64 channels", 64, 0.0, own=1.0),
    ProbeWorld("little, 10 channels", 10, 1.0),
    ProbeWorld("little, each prompt otherwise", 10, 1.0, own=1.0),
    ProbeWorld("much, 10 channels", 10, 2.5),
    ProbeWorld("much, each prompt otherwise", 10, 4.0, own=1.0),
    ProbeWorld("nearly all, 10 channels", 10, 4.0),
)


def draw_rows(world: ProbeWorld, rng: np.random.Generator, prompts: int = PROMPTS) -> PlaceRows:
    """Activations of both words at every prompt and seed."""
    prompt = np.repeat(np.arange(prompts), 2 * SEEDS)
    seed = np.tile(np.repeat(np.arange(SEEDS), 2), prompts)
    label = np.tile([0.0, 1.0], prompts * SEEDS)
    x = rng.standard_normal((len(label), world.channels))
    x += rng.standard_normal((prompts, world.channels))[prompt]
    x += world.own * rng.standard_normal((prompts, world.channels))[prompt] * (2 * label - 1)[:, None]
    x[:, 0] += world.word * (label - 0.5)
    return PlaceRows(x, prompt, seed, label)


def probe_coverage(
    worlds: tuple[ProbeWorld, ...] = WORLDS, *, simulations: int = 100, resamples: int = 500, seed: int = 0
) -> tuple[pd.DataFrame, list[dict[str, float | str]]]:
    """Return how often intervals of accuracy and AUC cover their mean, ½ where nothing is read; and the AUC's width."""
    rows, widths = [], []
    for number, world in enumerate(worlds):
        rng = np.random.default_rng([seed, 1100 + number])
        found = [
            cross_validated(
                draw_rows(world, rng),
                Choice(resamples=resamples, seed=number * simulations + one),
                widened=False,
            )
            for one in range(simulations)
        ]
        for name, plain in zip(("accuracy", "AUC"), zip(*(one.values() for one in found))):
            mean = float(np.mean([one.value for one in plain]))
            truth = 0.5 if world.word == 0 else mean
            ends = _ends(across_folds(one, FOLDS) for one in plain)
            rows.append(covered_row(world.name, name, truth, ends))
            if name == "AUC":
                width = float(np.mean(ends[1] - ends[0]))
                widths.append({"world": world.name, "auc": mean, "width": width})
    return pd.DataFrame(rows, columns=list(COLUMNS)), widths


def _ends(estimates: Iterable[IntervalEstimate]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = zip(*((one.low, one.high) for one in estimates))
    return np.array(low), np.array(high)
