"""Do frequencies of attributes differ between two words? Tests in which images change places between the words.

If the word made no difference, the two sides of every unit could have changed places. A unit is what was drawn together
and independently of the rest: a context with all of its images and attributes, or, where there is one context only, the
two images of one noise. Every image keeps all its attributes, since these hang together (with a skirt there are no
trousers). The score is the mean absolute difference
(Zhang et al. 2023, Eq. 2) of frequencies that are means over all images, whatever number of them each unit has.

Flipping the signs of whole contexts takes them for independent, which with a noise that contexts share they are not:
where seeds have a part of their own it rejects a true null in up to 97 % of cases (`docs/validation/statistics.md`).
In `crossed_swaps` signs of contexts and signs of seeds are flipped, each on its own, and the two sums are added.
What context and seed leave unexplained is in both: each difference is scaled to the variance
V(contexts) + V(seeds) − V(both) (Cameron, Gelbach and Miller 2011). It is a wild bootstrap, not an exact test, and
rejects less often than it says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.absolute_mean import Flips
from analysis.stats.crossed import crossed_variances
from analysis.stats.permutation import (
    ALL_EQUAL,
    NO_IMAGES,
    reached_share,
    sign_blocks,
)
from analysis.stats.resampling import ONE_PROMPT, on_grid

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class WordSwaps:
    """Differences of frequencies and their mean absolute value, held against words that change places.

    `value` is the mean absolute difference, `floor` its mean under swaps, `p_value` the part of the swaps with one at
    least as large, NaN for the `reason`, and `smallest` what it could have been at least, however the images had fallen
    to the words. By attribute: `difference`, frequency for the first word less that for the second, `p_values` alone
    and `p_adjusted` by max-T, NaN for the `reasons`; `flips` are the differences under the swaps.
    """

    value: float
    floor: float
    p_value: float
    smallest: float
    reason: str
    difference: NDArray[np.float64]
    p_values: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    reasons: NDArray[np.object_]
    flips: Flips


def word_swaps(
    sums: ArrayLike,
    counts: ArrayLike,
    *,
    dealt: bool = False,
    apart: bool = False,
    permutations: int = 10000,
    seed: int = 0,
) -> WordSwaps:
    """Hold differences of frequencies between two words against words that change places within units.

    Of sums of the values (1 where the attribute is there, else 0; or an estimate) over the images of a unit and word,
    shape (n_units, 2, n_attributes), and the number of images that were read. `dealt`: the images of a unit are no
    pair, as a unit is one image of each word, without a noise in common; then all images are dealt to the words at
    random. `apart`: every attribute has images of its own, which change places independently of those of others. All
    2^n_units swaps are counted where these are no more than `permutations`.

    Two contexts in which only the first word's five images have the attribute: two of four swaps are as far from 0.

    >>> result = word_swaps([[[5.0], [0.0]]] * 2, np.full((2, 2, 1), 5))
    >>> result.value, result.floor, result.p_value, result.smallest
    (1.0, 0.5, 0.5, 0.5)
    """
    values, there = np.asarray(sums, float), np.asarray(counts, float)
    read = there.any(axis=(1, 2))
    values, there = values[read], there[read]
    n, attributes = len(values), values.shape[2]
    total = there.sum(axis=0)
    columns = np.flatnonzero((total > 0).all(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        frequency = values.sum(axis=0) / total
    difference = np.where((total > 0).all(axis=0), frequency[0] - frequency[1], np.nan)
    exact = not dealt and not apart and n < 63 and 2**n <= permutations
    null, ones = np.full((2, 2**n if exact else permutations, attributes), np.nan)
    first = there * np.array([1.0, 0.0])[:, None]  # a difference of 1 in every unit
    for group in [[column] for column in columns] if apart else [columns] if len(columns) else []:
        stream = [seed, group[0]] if apart else seed
        places = _arrangements(there[:, :, group], dealt, len(null), stream)
        null[:, group] = _differences(places, values[:, :, group], there[:, :, group])
        ones[:, group] = _differences(places, first[:, :, group], there[:, :, group])
    size, flips = np.abs(null), Flips(null, ones, 0 if exact else 1)
    moved = np.nanmax(size[:, columns], axis=0, initial=0.0) > _TOLERANCE
    reasons = np.full(attributes, NO_IMAGES, dtype=object)
    reasons[columns] = np.where(moved, "", ALL_EQUAL)
    reason = NO_IMAGES if not len(columns) else ALL_EQUAL if not moved.any() else ""
    if n == 1 and len(columns) and not dealt:
        reason, reasons[columns] = ONE_PROMPT, ONE_PROMPT
    p_values, p_adjusted = np.full((2, attributes), np.nan)
    defined = reasons == ""
    if defined.any():
        spread = _spread(values[:, :, defined], there[:, :, defined], dealt)
        p_values[defined], p_adjusted[defined] = _max_t(size[:, defined], difference[defined], spread, exact)
    each = (reason, difference, p_values, p_adjusted, reasons, flips)
    if not len(columns):
        return WordSwaps(*[np.nan] * 4, *each)
    value = float(np.abs(difference[columns]).mean())
    with np.errstate(invalid="ignore"):
        scores = np.nanmean(size[:, columns], axis=1)
    floor = np.nan if n == 1 and not dealt else float(scores.mean())
    p_value, smallest = (
        np.nan if reason else float(reached_share(scores, end, exact)) for end in (value, scores.max())
    )
    return WordSwaps(value, floor, p_value, smallest, *each)


def _max_t(
    size: NDArray[np.float64], difference: NDArray[np.float64], spread: NDArray[np.float64], exact: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P-values of differences, alone and adjusted, from their sizes under arrangements and standard deviations."""
    null = np.nan_to_num(size / spread, nan=np.inf)  # a side without images: counted as reached
    observed = np.abs(difference) / spread
    return reached_share(null, observed, exact), reached_share(null.max(axis=1)[:, None], observed, exact)


def _spread(values: NDArray[np.float64], counts: NDArray[np.float64], dealt: bool) -> NDArray[np.float64]:
    """Standard deviation of each difference, the same (nearly, where counts differ) however the words are swapped."""
    total = counts.sum(axis=0)
    residual = values - counts * values.sum(axis=(0, 1)) / total.sum(axis=0)
    if dealt:
        return np.sqrt((residual**2).sum(axis=(0, 1)) / total.sum(axis=0) * (1 / total).sum(axis=0))
    return np.sqrt(((residual[:, 0] / total[0] - residual[:, 1] / total[1]) ** 2).sum(axis=0))


def _arrangements(counts: NDArray[np.float64], dealt: bool, total: int, seed) -> NDArray[np.float64]:
    """Which of the units' sides stand for the first word, shape (total, 2 n_units): those of the first word first."""
    n = len(counts)
    if dealt:
        there = counts.any(axis=2).T.ravel()
        lots = np.random.default_rng(seed).random((total, 2 * n))
        order = np.where(there, lots, np.inf).argsort(axis=1).argsort(axis=1)
        return (order < there[:n].sum()).astype(float)
    if isinstance(seed, list):  # a stream of its own for each attribute
        kept = np.random.default_rng(seed).integers(0, 2, (total, n)).astype(float)
    else:
        packed = np.concatenate(sign_blocks(n, total, seed))
        kept = np.unpackbits(packed, axis=1, count=n).astype(float)
    return np.concatenate([kept, 1 - kept], axis=1)


def _differences(
    places: NDArray[np.float64], values: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Difference of frequencies under each arrangement, shape (total, n_attributes); NaN where a side has no image."""
    stacked, images = (np.concatenate([side[:, 0], side[:, 1]]) for side in (values, counts))
    whole, exponent = on_grid(stacked)  # exact sums: ties are ties, whatever the BLAS
    first, read = places @ whole, places @ images
    with np.errstate(invalid="ignore", divide="ignore"):
        rest, unread = whole.sum(axis=0) - first, images.sum(axis=0) - read
        return (first / read - rest / unread) * np.ldexp(1.0, exponent)


@dataclass(frozen=True)
class CrossedSwaps:
    """The mean absolute difference under signs of contexts and of seeds, as of `WordSwaps`; differences by max-T."""

    floor: float
    p_value: float
    smallest: float
    p_adjusted: NDArray[np.float64]
    flips: Flips


def crossed_swaps(
    parts: NDArray[np.float64], ones: NDArray[np.float64], *, draws: int = 10000, seed: int = 0
) -> CrossedSwaps:
    """Hold a mean absolute difference against signs of contexts and of seeds.

    Of what each context and seed adds to the difference of each attribute, which is their sum, shape (n_contexts,
    n_seeds, n_attributes), and to a difference of 1 that is the same in all of them. The adjusted p-value of an
    attribute whose parts are all 0 is NaN.

    Three seeds that agree at every context still agree in a quarter of their own flips.

    >>> alike = np.ones((8, 3, 1)) / 24
    >>> 0.1 < crossed_swaps(alike, alike).p_value < 0.25
    True
    """
    (drawn, of_ones), variance = _flipped(parts, draws, seed, ones)
    difference, size, known = parts.sum(axis=(0, 1)), np.abs(drawn), variance > 0
    scores = size.mean(axis=1)
    agreeing = np.abs(_flipped(np.ones((*parts.shape[:2], 1)), draws, seed)[0][0])
    adjusted = np.full(len(known), np.nan)
    if known.any():
        adjusted[known] = _max_t(size[:, known], difference[known], np.sqrt(variance[known]), False)[1]
    return CrossedSwaps(
        floor=float(scores.mean()),
        p_value=float(reached_share(scores, np.abs(difference).mean(), False)),
        smallest=float(reached_share(agreeing, parts.shape[0] * parts.shape[1], False)[0]),
        p_adjusted=adjusted,
        flips=Flips(drawn, of_ones, 1),
    )


def _flipped(
    parts: NDArray[np.float64], draws: int, seed: int, *others: NDArray[np.float64]
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Differences under the flips, shape (draws, n_attributes), those of `others`, and the variances they have."""
    of_contexts, of_seeds = parts.sum(axis=1), parts.sum(axis=0)
    rng = np.random.default_rng(seed)
    signs = [2.0 * rng.integers(0, 2, (draws, len(side))) - 1 for side in (of_contexts, of_seeds)]
    by_context, by_seed, both = (
        (side**2).reshape(-1, parts.shape[2]).sum(axis=0) for side in (of_contexts, of_seeds, parts)
    )
    variance = np.maximum.reduce([by_context + by_seed - both, by_context, by_seed])
    held = by_context + by_seed
    scale = np.sqrt(np.divide(variance, held, out=np.ones(len(held)), where=held > 0))
    sums = [(one.sum(axis=1), one.sum(axis=0)) for one in (parts, *others)]
    return [(signs[0] @ first + signs[1] @ second) * scale for first, second in sums], variance


def crossed_covariance(parts: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the covariance of differences over contexts and seeds, and its degrees of freedom (Satterthwaite).

    Of what each context and seed adds to the error of each attribute's difference, (n_contexts, n_seeds, n_attributes);
    that of seeds so far as it goes beyond what both hold (`crossed.crossed_variances`).
    """
    contexts, seeds, attributes = parts.shape
    each = parts * contexts * seeds
    by_context, by_seed = crossed_variances(each, np.full(attributes, contexts))
    of_contexts, of_seeds = parts.sum(axis=1), parts.sum(axis=0)
    first = of_contexts.T @ of_contexts * contexts / (contexts - 1)
    second = of_seeds.T @ of_seeds * seeds / (seeds - 1)
    variance = np.diag(second)
    scale = np.sqrt(np.divide(by_seed, variance, out=np.zeros(attributes), where=variance > 0))
    one, other = by_context.sum(), by_seed.sum()
    freedom = (one + other) ** 2 / (one**2 / (contexts - 1) + other**2 / (seeds - 1)) if one + other else 1.0
    return first + second * np.outer(scale, scale), max(float(freedom), 1.0)
