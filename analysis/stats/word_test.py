r"""Is a gap more than what the choice of words makes? The gap held against words that mean the same.

A gap s(reference, m) − s(reference, f) has a geometric part: *man* and *woman* are two words, and any two words stand
at different distances from a third, also where a model holds no lean at all. More prompts do not remove it, since it
is the same in every prompt; a test against 0 finds it (the language-as-fixed-effect fallacy, Clark 1973). Control
words measure it: *gentleman* for *man*, *lady* for *woman*, *individual* for *person*.

Null hypothesis: the words of the two sides, and those of the reference, are drawn from all words of their meaning, and
over such draws the reference is on average as near to the words of the one side as to those of the other. Prompts,
words and reference words are samples crossed with each other:

.. math:: s_i(r, w) = \mu_{g(w)} + \beta_w + \rho_{r g(w)} + \gamma_{rw} + \pi_{i g(w)} + \varepsilon_{irw}

with :math:`\beta` what is the word's own, :math:`\rho` what is the reference word's own towards a whole side,
:math:`\pi` the prompt's. The difference of the sides' means is held against the error that all three samples leave.

Words that differ more among themselves are farther from every other word, whatever they mean: where the words of one
side are the odder ones, the plain gap leans to the other side though nothing does. The corrected gap

.. math:: [s(r, a) - \tfrac12 s(a, a')] - [s(r, b) - \tfrac12 s(b, b')]

with :math:`a \neq a'` different words of one side takes that off. It is half the difference of the squared distances of
the reference from the means of the two sides (as in energy distance and the maximum mean discrepancy), in which the
spread of a side has no part. With distances for s, signed so that a higher value is nearer, it is the same difference
of energy distances.

A pair of words gives ½ s(r, a) + ½ s(r, a′) − ½ s(a, a′) at a prompt, and a side has the median over its pairs there.
Where two words of one side both draw images that resemble nothing else, their pair stands farther from the reference,
and so would the mean over pairs; of three pairs the median leaves one out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.crossed import (
    FEW_SEEDS,
    FEWEST_SEEDS,
    Parts,
    crossed_bound,
    crossed_p_value,
    crossed_variances,
    satterthwaite,
)
from analysis.stats.resampling import NOTHING, ONE_PROMPT, checked_level, column_blocks, exact_sum

NO_CONTROLS = "controls: no side has a second word"
ALL_ALIKE = "controls: neither words nor prompts differ"
ONE_REFERENCE = "one reference word: the claim is about this word alone"
UNEQUAL = "words of a side spread unequally: the odder side is farther from any word"
UNEQUAL_SIZES = "sides of unequal size: a smaller side that spreads more is found too often"
RATIO = 2.0  # of the mean distances within the two sides
SIGNIFICANT = 0.05  # each tail, of the ratio of two variances


@dataclass(frozen=True)
class WordTest:
    """Gaps over words and prompts; arrays have shape (n_columns,), NaN where undefined, for the `reason`.

    `gap` is the mean over prompts and reference words of the mean over the first side's words less that over the
    second's (corrected where ``within`` is given), with its standard `error`, an interval for other prompts and other
    words of the same meaning, and the `p_value` of the null hypothesis of this module. `words_half` is half the
    interval that words and reference words alone would have, for an interval of the prompts that is made otherwise; the
    shares are those of words and reference words of the variance of the gap. `spread`, shape (2, n_columns), is the
    variance of the means of a side's words around their own side's; `n` the prompts that have a value for every word.
    """

    gap: NDArray[np.float64]
    error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    words_half: NDArray[np.float64]
    share_words: NDArray[np.float64]
    share_references: NDArray[np.float64]
    spread: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


def word_test(
    first: ArrayLike,
    second: ArrayLike,
    others: ArrayLike | None = None,
    *,
    within: Sequence[ArrayLike] | None = None,
    shared: ArrayLike | None = None,
    level: float = 0.95,
    apart: bool = False,
) -> WordTest:
    r"""Test whether the reference is nearer to the words of one side than to those of the other.

    The gap g over n prompts, R reference words and :math:`k_1, k_2` words has the variance :math:`V_p + V_w + V_r`:

    - :math:`V_p`, of the gaps of the single prompts, over n; with ``within`` the larger of two, of the medians over
      pairs of words and of their means;
    - :math:`V_w = s_1^2 / k_1 + s_2^2 / k_2`, of the words' means around their side's, each less what word and prompt
      leave unexplained, which :math:`V_p` holds; nothing is taken off for a side of two words ``within`` which there is
      one pair: which of them left the other cannot be seen;
    - :math:`V_r`, of the gaps of the single reference words, over R, less what reference word and prompt leave
      unexplained; 0 where there is one reference word, and the claim is then about it alone.

    None is below 0. The p-value is that of :math:`g / \sqrt{V_p + V_w + V_r}` by Student's t with Satterthwaite's
    degrees of freedom: the parts' own are n − 1, those of either side's words (Welch), and R − 1; the part of the
    reference words weighs as much as before it was lessened. Parts with too few degrees of freedom to be added up keep
    the quantile of their own (Banerjee): the words' with :math:`f = k_1 + k_2 - 2` where a side has two, or
    where one group stands for both sides, and the references' where there are two,

    .. math:: g^2 = V_p\, t_{n-1}(\alpha)^2 + V_w\, t_f(\alpha)^2 + V_r\, t_1(\alpha)^2

    and so do the seeds. The interval is :math:`g \pm` the root of the right side at 1 − level.

    (Clark 1973, and Westfall, Kenny and Judd 2014, for words as samples; Satterthwaite 1946, Welch 1947 and Banerjee
    1960 for the degrees of freedom; Gretton et al. 2012, Eq. 3, and Székely and Rizzo 2013 for the correction; Tukey's
    pseudo-values of a U-statistic after Arvesen 1969.)

    `first` and `second` are the nearness of each reference word to each word of the side, shape (n_references, n_words,
    n_prompts, n_columns), NaN where there is none; a prompt without a value for one of them is left out of that column.
    `others`, (n_words, n_prompts, n_columns), are the nearness of the reference to further words that mean the same as
    each other, used for :math:`V_w` only where neither side has two words: it is then assumed that words of all groups
    differ alike. ``within`` is the nearness of the words of each side to each other, (n_words, n_words, n_prompts,
    n_columns), its diagonal not read, two words a side or more: the gap is then the corrected one of this module, and
    each word carries its jackknife pseudo-value of the correction, so that :math:`s_1^2, s_2^2` hold the error of both
    (two words a side have one pair, and the same pseudo-value). `shared`, (n_prompts, n_seeds, n_columns), is the gap
    of each prompt and seed where prompts share their noise, averaged over words and reference words, corrected by the
    caller where ``within`` is given: seeds are then a fourth sample (`analysis.stats.crossed`). `apart`: no part is
    added up, and what word and prompt leave unexplained is taken off the prompts' part, not the words': less power, for
    p-values that are adjusted over many columns; without ``within`` and several references. ValueError for another
    number of axes, a level that is no number between 0 and 1, or ``within`` of one word or of others than the sides.

    Two prompts that agree; word means 5 and 3 against 2 and 0: gap 3, s² = 2, V = 2 (1/2 + 1/2), t = 3 / √2, f = 2.

    >>> result = word_test([[[[5.0], [5.0]], [[3.0], [3.0]]]], [[[[2.0], [2.0]], [[0.0], [0.0]]]])
    >>> float(result.gap[0]), round(float(result.p_value[0]), 4)
    (3.0, 0.1679)
    """
    checked_level(level)
    sides = [np.asarray(side) for side in (first, second)]
    spread = [np.asarray(others)[None]] if others is not None and all(s.shape[1] < 2 for s in sides) else []
    for array in (*sides, *spread):
        if array.ndim != 4 or not array.shape[0] * array.shape[1]:
            raise ValueError(
                f"words: expected shape (n_references, n_words, n_prompts, n_columns), got {array.shape}"
            )
    pairs = None if within is None else [np.asarray(of_side) for of_side in within]
    for side, of_side in zip(sides, pairs or ()):
        words = side.shape[1]
        if words < 2 or of_side.shape != (words, words, *side.shape[2:]):
            shape = (words, words, *side.shape[2:])
            raise ValueError(
                f"within: expected two words a side or more and shape {shape}, got {of_side.shape}"
            )
    _, _, rows, width = sides[0].shape
    gap, error, half, words_half, p_value = np.full((5, width), np.nan)
    shares, spread_of = np.full((2, 2, width), np.nan)
    seeds = None if shared is None else np.asarray(shared, np.float64)
    n, reason = np.zeros(width, np.int64), np.full(width, "", dtype=object)
    for block in column_blocks(width, rows=4 * rows):  # many arrays at once, each small
        cells = [array[..., block].astype(np.float64) for array in (*sides, *spread)]
        takes = [0.5 * pair_pseudo_values(of_side[..., block].astype(np.float64)) for of_side in pairs or ()]
        missing = np.any(
            [np.isnan(array).any(axis=(0, 1)) for array in (*cells, *(t[None] for t in takes))], axis=0
        )
        for array in (*cells, *(take[None] for take in takes)) if missing.any() else ():
            array[:, :, missing] = np.nan
        n[block] = (~missing).sum(axis=0)
        means = [_word_means(side, n[block]) for side in cells[:2]]
        robust = None
        if takes:
            over = [pair_medians(side, of_side[..., block]) for side, of_side in zip(cells, pairs)]
            robust = over[0] - over[1]
            cells[:2] = [side - take for side, take in zip(cells, takes)]
        for side, word_means in enumerate(means):
            if len(word_means) > 1:
                spread_of[side, block] = word_means.var(axis=0, ddof=1)
        gap[block], variances, parts, of_words = _variances(cells[:2], cells[2:], n[block], robust, apart)
        if seeds is not None:
            single = np.where(missing[:, None], np.nan, seeds[..., block])
            of_seeds = crossed_variances(single, n[block])[1]
            parts.append((of_seeds, max(single.shape[1] - 1, 1)))
            variances[2] = variances[2] + of_seeds
        half[block], words_half[block] = (np.sqrt(crossed_bound(1 - level, of)) for of in (parts, of_words))
        p_value[block] = crossed_p_value(gap[block] ** 2, parts)
        total = sum(variances)
        error[block] = np.sqrt(total)
        reason[block] = np.where(total > 0, "", ALL_ALIKE)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares[:, block] = [variance / total for variance in variances[:2]]
    reason[n == 1] = ONE_PROMPT
    reason[n == 0] = NOTHING
    if seeds is not None and seeds.shape[1] < FEWEST_SEEDS:
        reason[n > 0] = FEW_SEEDS
    if all(array.shape[1] == 1 for array in (*sides, *spread)):
        reason[:] = NO_CONTROLS
    defined = reason == ""
    p_value, half, words_half, error, *shares = (
        np.where(defined, array, np.nan) for array in (p_value, half, words_half, error, *shares)
    )
    return WordTest(
        gap=gap,
        error=error,
        low=gap - half,
        high=gap + half,
        p_value=p_value,
        words_half=words_half,
        share_words=shares[0],
        share_references=shares[1],
        spread=spread_of,
        n=n,
        reason=reason,
    )


def _word_means(side: NDArray[np.float64], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean of each word of a side over reference words and prompts, shape (n_words, n_columns)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([exact_sum(word.mean(axis=0)) / n for word in side.swapaxes(0, 1)])


def _variances(
    sides: list[NDArray[np.float64]],
    spread: list[NDArray[np.float64]],
    n: NDArray[np.int64],
    robust: NDArray[np.float64] | None,
    apart: bool,
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], Parts, Parts]:
    """The gap; its variances over words, reference words and prompts; and its error's parts, also without prompts.

    ``robust``, of shape (n_prompts, n_columns), is the gap of each prompt by `pair_medians`.
    """
    references, nothing = len(sides[0]), np.zeros(len(n))
    with np.errstate(invalid="ignore", divide="ignore"):
        single = [one.mean(axis=0) - two.mean(axis=0) for one, two in zip(*sides)]  # of each reference word
        whole = np.mean(single, axis=0)
        mean = exact_sum(whole) / n
        gap, prompts = mean, exact_sum((whole - mean) ** 2) / (n - 1) / n
        if robust is not None:
            gap = exact_sum(robust) / n
            prompts = np.maximum(prompts, exact_sum((robust - gap) ** 2) / (n - 1) / n)
        groups = spread or [side for side in sides if side.shape[1] > 1] or sides
        share = [1 / side.shape[1] for side in sides]
        if len(groups) < 2:  # stands for the other side too
            share = [sum(share)]
        words = [
            _words(group, part, n) for group, part in zip(groups, share)
        ]  # each with what prompts bring to it
        if apart:
            ours, theirs = (sum(of_all) for of_all in zip(*words))
            prompts = np.maximum.reduce([prompts - theirs, prompts - ours, nothing])
        of_sides = [
            (
                np.maximum(ours - theirs, nothing)
                if not apart and (group.shape[1] > 2 or robust is None)
                else ours,
                group.shape[1] - 1,
            )
            for group, (ours, theirs) in zip(groups, words)
        ]
        lean = np.array([exact_sum(gaps - whole) / n for gaps in single])
        square = (lean**2).sum(axis=0) / max(references - 1, 1) / references
        rest = sum(exact_sum((gaps - whole - own) ** 2) for gaps, own in zip(single, lean))
        reference = np.maximum(square - rest / max(references - 1, 1) / (n - 1) / n / references, nothing)
    weight = np.where(reference > 0, square, 0.0)
    parts, of_words = (
        error_parts(of_sides, (reference, references - 1, weight), (of_prompts, n - 1), apart=apart)
        for of_prompts in (prompts, nothing)
    )
    return gap, [sum(words for words, _ in of_sides), reference, prompts], parts, of_words


def error_parts(words: Parts, references: tuple, prompts: tuple, *, apart: bool = False) -> Parts:
    """Return the variances of a gap by degrees of freedom, as `analysis.stats.crossed.crossed_bound` takes them.

    Of the words of each side, the reference words (with what stands for them where they are added up) and the prompts;
    `apart`: each keeps the quantile of its own degrees of freedom.
    """
    together, alone = [prompts], []
    if not apart and len(words) > 1 and min(freedom for _, freedom in words) > 1:
        together += words
    else:
        alone.append((sum(variance for variance, _ in words), sum(freedom for _, freedom in words)))
    if references[1] > 1 and not apart:
        together.append(references)
    elif references[1] > 0:
        alone.append(references[:2])
    return [satterthwaite(together), *alone]


def _words(
    group: NDArray[np.float64], share: float, n: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variance of words' means around their group's, and what of it word and prompt leave unexplained."""
    squares = left = np.zeros(len(n))
    over_references = group.mean(axis=0)
    mean = over_references.mean(axis=0)
    for word in over_references:
        deviation = word - mean
        centre = exact_sum(deviation) / n
        squares, left = squares + centre**2, left + exact_sum((deviation - centre) ** 2)
    scale = share / max(group.shape[1] - 1, 1)
    return squares * scale, left / (n - 1) / n * scale


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
    return np.mean([one.mean(axis=0) - two.mean(axis=0) for one, two in zip(*sides)], axis=0)


def pair_pseudo_values(near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the jackknife pseudo-value of each word for the mean over all pairs of different words.

    Of nearness (n_words, n_words, ...), symmetric, its diagonal not read; with two words both have their one pair.
    """
    words = len(near)
    of_word = np.array([np.delete(near[w], w, axis=0).mean(axis=0) for w in range(words)])
    whole = of_word.mean(axis=0)
    if words == 2:
        return of_word
    without = (words * whole - 2 * of_word) / (words - 2)  # mean over the pairs of the others
    return words * whole - (words - 1) * without


def pair_medians(side: NDArray[np.float64], near: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median over the pairs of a side's words of what is theirs, shape (n_prompts, n_columns); see `word_test`."""
    word = side.mean(axis=0)
    pairs = [0.5 * (word[a] + word[b]) - 0.5 * near[a, b] for a, b in combinations(range(len(word)), 2)]
    return np.median(pairs, axis=0)


def word_cautions(
    n_references: NDArray[np.int64],
    unequal: NDArray[np.bool_],
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.object_]:
    """Return the cautions of the test against words of each column, joined by "; ".

    By the words that stood as reference, whether the sides are unequal (`unequal_sides`), and the words of each side.

    >>> word_cautions(np.array([1, 3]), np.array([False, True]), (np.array([3, 3]), np.array([3, 3]))).tolist()
    ['one reference word: the claim is about this word alone', 'words of a side spread unequally: the odder side is \
farther from any word']
    """
    told = {ONE_REFERENCE: n_references == 1, UNEQUAL: unequal, UNEQUAL_SIZES: sizes[0] != sizes[1]}
    rows = zip(*(np.broadcast_to(where, len(n_references)) for where in told.values()))
    return np.array(["; ".join(text for text, said in zip(told, row) if said) for row in rows], object)


def unequal_sides(
    spread: NDArray[np.float64], sizes: tuple[int, int], apart: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Say for each column whether the words of one side lie farther apart than those of the other.

    The ratio of the mean distances `apart` is `RATIO` or more, or that of the variances `spread` of the words' nearness
    to the reference is in either 5 % tail of F; both of shape (2, n_columns), NaN where there is none.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        far = apart.max(axis=0) >= RATIO * apart.min(axis=0)
        if min(sizes) < 2:
            return far & (apart.max(axis=0) > 0)
        tail = special.fdtrc(sizes[0] - 1, sizes[1] - 1, spread[0] / spread[1])
    return (far & (apart.max(axis=0) > 0)) | (tail < SIGNIFICANT) | (tail > 1 - SIGNIFICANT)
