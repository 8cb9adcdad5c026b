"""Exact permutation of words over the sides: its p-value, and the smallest that it can reach.

If the words of both sides were drawn from one set, any division of them into two sides of these sizes would have been
as likely. With two words a side there are six divisions, with three twenty; no number of prompts adds one.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST = 200_000  # divisions that are counted; eleven words a side have more


def permutation_floor(first: int, second: int) -> float:
    """Return the smallest two-sided p-value that a permutation of so many words over two sides can reach.

    Of the divisions one is the observed one; where the sides are of one size another is its reverse, as extreme.
    """
    if min(first, second) < 1:
        return float("nan")
    return (2 if first == second else 1) / comb(first + second, first)


def word_permutation_test(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the share of all divisions of the words whose sides lie at least as far apart as the observed ones.

    Of each word's mean, shape (n_words, n_columns) a side; two-sided and exact, as `scipy.stats.permutation_test` of
    one column. NaN where a mean is, and where there are more than `LARGEST` divisions.
    """
    sides = [np.asarray(side, np.float64) for side in (first, second)]
    size, words = len(sides[0]), np.concatenate(sides)
    n_words, width = words.shape
    if min(len(side) for side in sides) < 1 or comb(n_words, size) > LARGEST:
        return np.full(width, np.nan)
    weight = 1 / size + 1 / len(sides[1])  # difference of means = weight * sum of one side - constant
    chosen = np.array(list(combinations(range(n_words), size)))
    centred = words - words.mean(axis=0)
    reached, observed = np.zeros(width), np.abs(centred[:size].sum(axis=0)) * weight
    rounding = 1e-9 * observed + 1e-13 * np.abs(words).max(axis=0, initial=0.0)
    for division in chosen:
        reached += np.abs(centred[division].sum(axis=0)) * weight >= observed - rounding
    return np.where(np.isnan(observed), np.nan, reached / len(chosen))
