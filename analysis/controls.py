r"""Is a gap more than what the choice of words makes? The gap held against words that mean the same.

A gap s(reference, m) − s(reference, f) has a geometric part: *man* and *woman* are two words, and any two words stand
at different distances from a third, also where a model holds no lean at all. More prompts do not remove it, since it
is the same in every prompt; a test against 0 finds it (the language-as-fixed-effect fallacy, Clark 1973). Control
words measure it: *gentleman* for *man*, *lady* for *woman*.

Null hypothesis: the words of the two groups are drawn from all words of their meaning, and over such draws the
reference is on average as near to those of the one group as to those of the other. Prompts and words are both
samples, crossed with each other:

.. math:: s_i(r, w) = \mu_{g(w)} + \beta_w + \pi_{i g(w)} + \varepsilon_{iw}

with :math:`\beta_w` what is the word's own, :math:`\pi` what is the prompt's, for all words of a group alike. The
difference of the groups' means is held against the error that both samples leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.resampling import NOTHING, ONE_PROMPT, column_blocks, exact_sum

NO_CONTROLS = "controls: no group has a second word"
ALL_ALIKE = "controls: neither words nor prompts differ"


@dataclass(frozen=True)
class WordTest:
    """Gaps over words and prompts; arrays have shape (n_columns,), NaN where undefined.

    Attributes
    ----------
    gap, low, high : ndarray of float64
        Mean over prompts of the mean over the first group's words less that over the second's, with an interval for
        other prompts and other words of the same meaning.
    p_value : ndarray of float64
        Of the null hypothesis of this module; two-sided.
    freedom : int
        Degrees of freedom of the words: those used, less one a group.
    n : ndarray of int64
        Prompts that have a value for every word used.
    reason : ndarray of object (str)
        Why interval and p-value are NaN; empty where they are not.
    level : float
    """

    gap: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    freedom: int
    n: NDArray[np.int64]
    reason: NDArray[np.object_]
    level: float


def word_test(
    first: ArrayLike, second: ArrayLike, others: Sequence[ArrayLike] = (), *, level: float = 0.95
) -> WordTest:
    r"""Test whether the reference is nearer to the words of one group than to those of another.

    With :math:`k_1, k_2` words in the groups, f degrees of freedom of the words and n prompts, the gap g has the
    variance :math:`V_w + V_p`: :math:`V_w = s_w^2 (1/k_1 + 1/k_2)` from the words' means around their group's, with
    :math:`V_e` in it, what word and prompt leave unexplained; :math:`V_p` the variance over prompts of the difference
    of group means, over n, less :math:`V_e`, which it holds as well (it is not taken so low that the sum falls below
    the variance over prompts alone). The p-value is the α that solves

    .. math:: g^2 = V_w\, t_f(\alpha)^2 + V_p\, t_{n-1}(\alpha)^2

    with the two-sided quantiles of Student's t, and the interval is :math:`g \pm` the root of the right side.
    Banerjee has shown that this keeps its level however the variance is shared, where the usual approximation of
    the degrees of freedom (Satterthwaite) rejects too often with two or three words a group.

    Parameters
    ----------
    first, second : array_like of float, shape (n_words, n_prompts, n_columns)
        Nearness of the reference to each word of the group; NaN where there is none. A prompt without a value for
        one of the words is left out of that column.
    others : sequence of array_like, each of shape (n_words, n_prompts, n_columns)
        Further groups, such as words that mean the same as the reference. They are used for :math:`s_w^2` only where
        neither `first` nor `second` has two words, and then stand for these: it is assumed that words of all groups
        differ alike.
    level : float

    Source
    ------
    Banerjee 1960; Clark 1973 and Judd, Westfall and Kenny 2012 for words (stimuli) within condition.

    Examples
    --------
    Two prompts that agree; word means 5 and 3 against 2 and 0: gap 3, s² = 2, V = 2 (1/2 + 1/2), t = 3 / √2, f = 2.

    >>> result = word_test([[[5.0], [5.0]], [[3.0], [3.0]]], [[[2.0], [2.0]], [[0.0], [0.0]]])
    >>> float(result.gap[0]), result.freedom, round(float(result.p_value[0]), 4)
    (3.0, 2, 0.1679)
    """
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level}")
    groups = [_group(part) for part in (first, second)]
    if all(len(group) < 2 for group in groups):
        groups += [_group(part) for part in others]
    _, rows, width = groups[0].shape
    freedom = sum(len(group) - 1 for group in groups)
    gap, half, p_value = np.full((3, width), np.nan)
    n, reason = np.zeros(width, np.int64), np.full(width, "", dtype=object)
    for block in column_blocks(width, None, rows=rows):
        cells = [group[:, :, block].astype(np.float64) for group in groups]
        gap[block], variances, n[block] = _variances(cells, freedom)
        half[block] = np.sqrt(_bound(1 - level, *variances))
        p_value[block] = _solve(gap[block] ** 2, *variances)
        reason[block] = np.where(variances[0] + variances[2] > 0, "", ALL_ALIKE)
    reason[n == 1] = ONE_PROMPT
    reason[n == 0] = NOTHING
    if not freedom:
        reason[:] = NO_CONTROLS
    p_value, half = (np.where(reason == "", part, np.nan) for part in (p_value, half))
    return WordTest(gap, gap - half, gap + half, p_value, freedom, n, reason, level)


def _group(values: ArrayLike) -> NDArray:
    values = np.asarray(values)
    if values.ndim != 3 or not len(values):
        raise ValueError(f"words: expected shape (n_words, n_prompts, n_columns), got {values.shape}")
    return values


def _variances(groups: list[NDArray[np.float64]], freedom: int) -> tuple[NDArray, tuple, NDArray[np.int64]]:
    """The gap, its variance over words and over prompts, each with its degrees of freedom, and prompts used."""
    width = groups[0].shape[2]
    missing = np.any([np.isnan(group).any(axis=0) for group in groups], axis=0)
    n = (~missing).sum(axis=0)
    share = 1 / len(groups[0]) + 1 / len(groups[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        over_words = [_mean_of(group) for group in groups]
        for mean in over_words:
            mean[missing] = np.nan
        difference = over_words[0] - over_words[1]
        gap = exact_sum(difference) / n
        between = exact_sum((difference - gap) ** 2) / (n - 1) / n
        words = residual = np.zeros(width)
        for group, mean in zip(groups, over_words):
            for word in group if len(group) > 1 else ():
                own = word - mean
                centre = exact_sum(own) / n
                words, residual = words + centre**2, residual + exact_sum((own - centre) ** 2)
        by_words = words / max(freedom, 1) * share
        unexplained = residual / (max(freedom, 1) * (n - 1)) / n * share
        by_prompts = np.maximum.reduce([between - unexplained, between - by_words, np.zeros(width)])
    return gap, (by_words, freedom, by_prompts, n - 1), n


def _mean_of(words: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over words, added in their order, shape (n_prompts, n_columns)."""
    total = words[0].copy()
    for word in words[1:]:
        total += word
    return total / len(words)


def _bound(alpha, by_words, freedom, by_prompts, prompt_freedom) -> NDArray[np.float64]:
    """Square of the largest gap that is not rejected at each α."""
    quantiles = (special.stdtrit(np.maximum(own, 1), alpha / 2) for own in (freedom, prompt_freedom))
    return sum(part * quantile**2 for part, quantile in zip((by_words, by_prompts), quantiles))


def _solve(square, *variances) -> NDArray[np.float64]:
    """The α at which the bound is the square, by bisection of its logarithm; nothing is below 1e-16."""
    low, high = np.full(len(square), np.log(1e-16)), np.zeros(len(square))
    for _ in range(50):
        middle = (low + high) / 2
        above = _bound(np.exp(middle), *variances) > square
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(high)
