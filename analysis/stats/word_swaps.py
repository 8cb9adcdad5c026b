"""Do frequencies differ between two words? A test in which the words change places within units.

A unit is what was drawn together and independently of the rest: a context with all of its images and attributes, or,
where there is one context only, the two images of one noise. If the word made no difference, the two sides of every
unit could have changed places. The frequencies are means over all images (Zhang et al. 2023, Eq. 1), whatever number of
them each unit has, so that score, floor and p-values are of one weighting although labels are missing here and there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.absolute_mean import Flips
from analysis.stats.exact_sums import on_grid
from analysis.stats.noise_floor_result import ALL_EQUAL, NO_IMAGES
from analysis.stats.resampling import ONE_PROMPT, sign_blocks

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class WordSwaps:
    """Differences of frequencies and their mean absolute value, held against words that change places.

    Attributes
    ----------
    value, floor, sd, excess : float
        The mean absolute difference; its mean and standard deviation under swaps; `value` less `floor`.
    p_value : float
        Part of the swaps with a mean absolute difference at least as large; NaN where undefined.
    smallest : float
        The smallest p-value that these units could have given, however their images had fallen to the words.
    reason : str
        Why `p_value` is NaN; empty where it is not.
    difference : ndarray of float64, shape (n_attributes,)
        Frequency for the first word less that for the second.
    p_values, p_adjusted : ndarray of float64, shape (n_attributes,)
        Of each difference alone, and adjusted over all by max-T (Westfall and Young 1993).
    reasons : ndarray of object (str), shape (n_attributes,)
        Why they are NaN.
    flips : Flips
        The differences under the swaps, of which `p_value` is counted.
    """

    value: float
    floor: float
    sd: float
    excess: float
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

    Parameters
    ----------
    sums : array_like of float, shape (n_units, 2, n_attributes)
        Sum of the values (1 where the attribute is there, else 0; or an estimate) over the images of a unit and word.
    counts : array_like of int, same shape
        Images that were read.
    dealt : bool
        The images of a unit are no pair, as a unit is one image of each word, without a noise in common: then all
        images are dealt to the words at random.
    apart : bool
        Every attribute has images of its own, which change places independently of those of others.
    permutations : int
        All 2^n_units swaps are counted where these are no more; else so many are drawn.
    seed : int

    Raises
    ------
    ValueError
        Shapes differ.

    Source
    ------
    The score is that of Zhang et al. 2023, Eq. 2. Phipson and Smyth 2010 for the + 1 of drawn p-values.

    Examples
    --------
    Two contexts in which only the first word's five images have the attribute: two of four swaps are as far from 0.

    >>> result = word_swaps([[[5.0], [0.0]]] * 2, np.full((2, 2, 1), 5))
    >>> result.value, result.floor, result.p_value, result.smallest
    (1.0, 0.5, 0.5, 0.5)
    """
    values, there = np.asarray(sums, float), np.asarray(counts, float)
    if values.shape != there.shape or values.ndim != 3 or values.shape[1] != 2:
        raise ValueError(
            f"sums: expected two arrays of shape (n_units, 2, n_attributes), got {values.shape} and {there.shape}"
        )
    read = there.any(axis=(1, 2))
    values, there = values[read], there[read]
    n, attributes = len(values), values.shape[2]
    total = there.sum(axis=0)
    known = (total > 0).all(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where(
            known, values.sum(axis=0)[0] / total[0] - values.sum(axis=0)[1] / total[1], np.nan
        )
    exact = not dealt and not apart and n < 63 and 2**n <= permutations
    columns = np.flatnonzero(known)
    drawn, ones = np.full((2, 2**n if exact else permutations, attributes), np.nan)
    first = there * np.array([1.0, 0.0])[:, None]  # a difference of 1 in every unit
    for group in [[column] for column in columns] if apart else [columns] if len(columns) else []:
        stream = [seed, group[0]] if apart else seed
        places = _arrangements(there[:, :, group], dealt, len(drawn), exact, stream)
        drawn[:, group] = _differences(places, values[:, :, group], there[:, :, group])
        ones[:, group] = _differences(places, first[:, :, group], there[:, :, group])
    size = np.abs(drawn)
    moved = np.nanmax(size[:, known], axis=0, initial=0.0) > _TOLERANCE
    reasons = np.full(attributes, NO_IMAGES, dtype=object)
    reasons[columns] = np.where(moved, "", ALL_EQUAL)
    reason = NO_IMAGES if not len(columns) else ALL_EQUAL if not moved.any() else ""
    if n == 1 and len(columns) and not dealt:
        reason, reasons[columns] = ONE_PROMPT, ONE_PROMPT
    extra = 0 if exact else 1
    value = float(np.abs(difference[columns]).mean()) if len(columns) else np.nan
    p_values, p_adjusted = np.full((2, attributes), np.nan)
    defined = reasons == ""
    if defined.any():
        spread = _spread(values[:, :, defined], there[:, :, defined], dealt)
        scaled = np.abs(difference[defined]) / spread
        null = np.nan_to_num(
            size[:, defined] / spread, nan=np.inf
        )  # a side without images: counted as reached
        p_values[defined] = _share(null >= scaled * (1 - _TOLERANCE) - 1e-15, extra)
        largest = null.max(axis=1)
        p_adjusted[defined] = _share(largest[:, None] >= scaled * (1 - _TOLERANCE) - 1e-15, extra)
    flips = Flips(drawn, ones, extra)
    if not len(columns):
        nothing = (np.nan,) * 5
        return WordSwaps(value, *nothing, reason, difference, p_values, p_adjusted, reasons, flips)
    with np.errstate(invalid="ignore"):
        scores = np.nanmean(size[:, columns], axis=1)
    floor = float(scores.mean())
    p_value, smallest = (
        float(_share(scores[:, None] >= end * (1 - _TOLERANCE) - 1e-15, extra)[0])
        for end in (value, scores.max())
    )
    return WordSwaps(
        value=value,
        floor=floor if n > 1 or dealt else np.nan,
        sd=float(scores.std()) if n > 1 or dealt else np.nan,
        excess=value - floor if n > 1 or dealt else np.nan,
        p_value=np.nan if reason else p_value,
        smallest=np.nan if reason else smallest,
        reason=reason,
        difference=difference,
        p_values=p_values,
        p_adjusted=p_adjusted,
        reasons=reasons,
        flips=flips,
    )


def _spread(values: NDArray[np.float64], counts: NDArray[np.float64], dealt: bool) -> NDArray[np.float64]:
    """Standard deviation of each difference, the same (nearly, where counts differ) however the words are swapped."""
    total = counts.sum(axis=0)
    residual = values - counts * values.sum(axis=(0, 1)) / total.sum(axis=0)
    if dealt:
        return np.sqrt((residual**2).sum(axis=(0, 1)) / total.sum(axis=0) * (1 / total).sum(axis=0))
    return np.sqrt(((residual[:, 0] / total[0] - residual[:, 1] / total[1]) ** 2).sum(axis=0))


def _share(reached: NDArray[np.bool_], extra: int) -> NDArray[np.float64]:
    """Part of the swaps that reach, by column; `extra` is 1 where swaps are drawn, for the one at hand."""
    return (reached.sum(axis=0) + extra) / (len(reached) + extra)


def _arrangements(
    counts: NDArray[np.float64], dealt: bool, total: int, exact: bool, seed
) -> NDArray[np.float64]:
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
        packed = np.concatenate(sign_blocks(n, total, exact, seed))
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
