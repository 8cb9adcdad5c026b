"""A score beside what no difference would give, and how it comes about from the parts of the score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.null_distribution import NullDistribution, mean_of_independent

NO_IMAGES = "no images"
ONE_CATEGORY = "one category only"
CONSTANT = "every attribute is in all images or in none"
ONE_PROMPT = "one prompt only"
ALL_EQUAL = "no difference in any prompt"
_TOLERANCE = 1e-9

# One independent part of a score: its distribution under the null, or a way to draw it.
Part = NullDistribution | Callable[[np.random.Generator, int], NDArray[np.float64]]


@dataclass(frozen=True)
class NoiseFloor:
    """A score beside what no difference would give.

    Attributes
    ----------
    value : float
        The score; NaN where undefined.
    floor, sd : float
        Mean and standard deviation of the score under the null.
    excess : float
        `value` - `floor`. Positive: farther from "no difference" than chance alone.
    p_value : float
        Probability under the null of a score at least as far from "no difference".
    n : int
        Images counted (`paired_floor`: prompts).
    undefined : int
        Attributes, prompts or samples left out because they have no images.
    reason : str
        Why something is NaN; empty where nothing is.
    """

    value: float
    floor: float
    sd: float
    excess: float
    p_value: float
    n: int
    undefined: int
    reason: str


def undefined_floor(reason: str, undefined: int, *, value: float = math.nan, n: int = 0) -> NoiseFloor:
    """Return a result without a floor, and why there is none."""
    nan = math.nan
    return NoiseFloor(value, nan, nan, nan, nan, n, undefined, reason)


def floor_of_mean(
    parts: Sequence[tuple[Part, int]],
    value: float,
    n: int,
    undefined: int,
    draws: int,
    seed: int,
    *,
    scale: float = 1.0,
) -> NoiseFloor:
    """Compare the mean of independent distances, `value`, with its null; drawn where that cannot be counted.

    Parts are distances, each with how many of them are of this kind; `scale` is a factor on value, floor, sd and
    excess.
    """
    if draws < 1:
        raise ValueError(f"draws: expected at least 1, got {draws}")
    known = {}
    for distance, repeats in parts:
        if isinstance(distance, NullDistribution):
            known[distance] = known.get(distance, 0) + repeats
    whole = mean_of_independent(known) if len(known) == len(parts) else None
    if whole is not None:
        floor, sd, p_value = whole.mean, whole.sd, whole.tail(value)
    else:
        rng, total, count = np.random.default_rng(seed), np.zeros(draws), sum(repeats for _, repeats in parts)
        for distance, repeats in parts:
            if isinstance(distance, NullDistribution):
                total += _drawn_sums(distance.values, distance.probability, repeats, draws, rng)
            else:
                for _ in range(repeats):
                    total += distance(rng, draws)
        total /= count
        floor, sd = float(total.mean()), float(total.std())
        if len(known) == len(parts):  # means add up exactly, whatever the grid
            floor = sum(distance.mean * repeats for distance, repeats in parts) / count
        p_value = (1 + int((total >= value - _TOLERANCE).sum())) / (1 + draws)
    numbers = (one * scale for one in (value, floor, sd, value - floor))
    return NoiseFloor(*numbers, p_value, n, undefined, "")


def _drawn_sums(
    values: NDArray[np.float64],
    probability: NDArray[np.float64],
    count: int,
    draws: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw the sum of so many independent values of these probabilities, shape (draws,)."""
    probability = probability / probability.sum()
    if count > len(values):  # how often each value comes is cheaper to draw than every single one
        return rng.multinomial(count, probability, size=draws) @ values
    edges = np.cumsum(probability)
    edges[-1] = 1.0
    total = np.zeros(draws)
    for _ in range(count):
        total += values[np.searchsorted(edges, rng.random(draws), side="right")]
    return total


def whole_counts(values: ArrayLike) -> NDArray[np.int64]:
    """Return counts as whole numbers, or raise ValueError where one is negative or none."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub" and (array.size and not (np.mod(array, 1) == 0).all()):
        raise ValueError(f"counts: expected whole numbers, got {array.ravel()[:5].tolist()}")
    if (array < 0).any():
        raise ValueError(f"counts: expected none below 0, got {array.min()}")
    return array.astype(np.int64)
