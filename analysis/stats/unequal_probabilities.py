r"""Samples whose units are chosen with unequal, known probabilities, so that the total that they estimate has no bias.

A unit that is chosen with probability :math:`\pi` stands for :math:`1/\pi` of its kind (Horvitz and Thompson 1952). Its
part in the variance is :math:`s (1/\pi - 1)`, s the square of its value, which is least for a given number of units
where :math:`\pi` is proportional to the root of the expected square.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

DIGITS = 3  # of a probability, so that it can be written down exactly


def inclusion_probabilities(spread: ArrayLike, number: float, least: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return probabilities in proportion to a spread, at least `least` and at most 1, with about the sum `number`.

    Parameters
    ----------
    spread : array_like of float, shape (n_units,)
        Roots of the expected squares; above 0.
    number : float
        Units to choose; more, where `least` takes them.
    least : float or array_like of float, shape (n_units,)

    Examples
    --------
    >>> inclusion_probabilities([1, 1, 2, 8], 2.5, 0.25).tolist()
    [0.375, 0.375, 0.75, 1.0]
    """
    spread, least = np.asarray(spread, np.float64), np.asarray(least, np.float64)
    low, high = 0.0, 1.0 / spread.min() if len(spread) else 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(middle * spread, least, 1.0).sum() < number else (low, middle)
    rounded = np.ceil(np.clip(high * spread, least, 1.0) * 10**DIGITS - 1e-6) / 10**DIGITS
    return np.minimum(rounded, 1.0)


def systematic_sample(probabilities: ArrayLike, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which units a systematic sample chooses: one wherever the probabilities so far pass a whole number.

    Of neighbours whose probabilities have a sum of 1 or more at least one is chosen.

    Source
    ------
    Madow 1949.

    Examples
    --------
    >>> chosen = [systematic_sample([0.5, 0.5, 0.2], np.random.default_rng(seed)) for seed in range(4000)]
    >>> np.mean(chosen, axis=0).round(1).tolist(), bool(np.all(np.sum(chosen, axis=0) > 0))
    ([0.5, 0.5, 0.2], True)
    """
    ends = np.round(np.cumsum(np.asarray(probabilities, np.float64)), DIGITS + 3) - rng.random()
    passed = np.floor(ends)
    return np.diff(passed, prepend=-1.0) > 0
