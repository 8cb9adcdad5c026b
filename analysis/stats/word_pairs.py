"""Gaps of single prompts over all words of two sides, and what the pairs of a side's words take off them.

The corrected gap is defined in `analysis.stats.word_test`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def prompt_gaps(
    first: ArrayLike, second: ArrayLike, within: Sequence[ArrayLike] | None = None
) -> NDArray[np.float64]:
    """Return the gap of each prompt, over all words, shape (n_prompts, n_columns); their mean is that of `word_test`.

    Of arrays as `word_test` takes them, without missing values; corrected where ``within`` is given.

    >>> prompt_gaps([[[[5.0], [5.0]], [[3.0], [4.0]]]], [[[[2.0], [2.0]], [[0.0], [0.0]]]]).tolist()
    [[3.0], [3.5]]
    """
    sides = [np.asarray(side, np.float64) for side in (first, second)]
    if within is not None:
        one, two = (pair_medians(side, np.asarray(of_side)) for side, of_side in zip(sides, within))
        return one - two
    return mean_of([mean_of(list(one)) - mean_of(list(two)) for one, two in zip(*sides)])


def pair_pseudo_values(near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the jackknife pseudo-value of each word for the mean over all pairs of different words.

    Of nearness (n_words, n_words, ...), symmetric, its diagonal not read; with two words both have their one pair.
    """
    words = len(near)
    of_word = np.array([mean_of([near[w, v] for v in range(words) if v != w]) for w in range(words)])
    whole = mean_of(list(of_word))
    if words == 2:
        return of_word
    without = (words * whole - 2 * of_word) / (words - 2)  # mean over the pairs of the others
    return words * whole - (words - 1) * without


def pair_medians(side: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over the pairs of a side's words of what is theirs, shape (n_prompts, n_columns); see `word_test`."""
    word = [mean_of(of_word) for of_word in side.swapaxes(0, 1)]
    pairs = [0.5 * (word[a] + word[b]) - 0.5 * near[a, b] for a, b in combinations(range(len(word)), 2)]
    return np.median(pairs, axis=0)


def mean_of(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mean of arrays, added in their order."""
    if len(parts) == 1:
        return parts[0]
    total = parts[0] + parts[1]
    for array in parts[2:]:
        total += array
    total /= len(parts)
    return total
