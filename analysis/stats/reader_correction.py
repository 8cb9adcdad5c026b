r"""Shares set right for what a reader confuses, known from labelled images or from words whose shares are known.

A reader that says *yes* to a share s of the images that are, and to a share f of those that are not, says so of
:math:`p = s \pi + f (1 - \pi)`, so :math:`\hat\pi = (p - f) / (s - f)` (Rogan and Gladen 1978). Two sides of many
prompts, of which some are labelled, are held against each other in `analysis.stats.detector_correction`.

Without labels, s and f are what the reader says of images whose share is 1 and 0 by their prompts: a word that means
one of two kinds, and one that means the other (:func:`shares_between`). It then says where the reading of a third word
stands between theirs, whatever the reader confuses alike for all three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.detector_correction import NO_LABELS
from analysis.stats.shares import no_total

DRAWS = 4000
READER_STREAM = 27  # one seed draws nothing twice
SEES = 0.2  # smallest s - f: below, the reader says next to nothing
LEAST_SEES = 0.1  # in a single draw
BLIND = "the reader hardly tells images that are from those that are not"
NO_IMAGES = "no images"
_HALF = 0.5  # images added to each kind (Jeffreys)


@dataclass(frozen=True)
class CorrectedShares:
    """Shares behind a reader that errs; arrays of shape (n,), NaN where undefined.

    Attributes
    ----------
    share, low, high : ndarray of float64
        Within 0 to 1.
    sensitivity, false_rate : ndarray of float64
        s and f, half an image added to each kind.
    reason : ndarray of object (str)
        Why the numbers are NaN; empty where they are not.
    """

    share: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sensitivity: NDArray[np.float64]
    false_rate: NDArray[np.float64]
    reason: NDArray[np.object_]


def corrected_shares(
    said: ArrayLike,
    images: ArrayLike,
    labels: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> CorrectedShares:
    """Set shares right for the errors of a reader, known from labelled images that are not among them.

    Parameters
    ----------
    said, images : array_like of int, shape (n,)
        Images of which the reader says yes, and images.
    labels : array_like of int, shape (n, 4)
        Labelled images that are and of which it says yes, that are and no, that are not and yes, that are not and no.
    level : float
    draws, seed : int
        The interval is of draws of the share, s and f from beta distributions, each with half an image of either kind
        more than was counted (Jeffreys); where no image, or every image, was said to be, it reaches 0 or 1.

    Examples
    --------
    A reader that sees half of what is there and invents nothing says yes to 20 of 100 images.

    >>> result = corrected_shares([20], [100], [[500, 500, 0, 1000]])
    >>> result.share.round(2).tolist(), bool(result.low[0] < 0.4 < result.high[0])
    ([0.4], True)
    """
    k, n = np.asarray(said, np.int64), np.asarray(images, np.int64)
    hits, missed, false, rejected = np.asarray(labels, np.int64).reshape(len(k), 4).T
    s = (hits + _HALF) / (hits + missed + 2 * _HALF)
    f = (false + _HALF) / (false + rejected + 2 * _HALF)
    rng = np.random.default_rng([seed, READER_STREAM])
    shape = (draws, len(k))

    def drawn(yes: NDArray, no: NDArray) -> NDArray[np.float64]:
        return rng.beta(yes + _HALF, no + _HALF, shape)

    p_draws, s_draws, f_draws = drawn(k, n - k), drawn(hits, missed), drawn(false, rejected)
    pi = np.clip((p_draws - f_draws) / np.maximum(s_draws - f_draws, LEAST_SEES), 0, 1)
    low, high = np.quantile(pi, [(1 - level) / 2, (1 + level) / 2], axis=0)
    low, high = np.where(k == 0, 0.0, low), np.where(k == n, 1.0, high)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip((k / n - f) / np.maximum(s - f, LEAST_SEES), 0, 1)
    reason = np.full(len(k), "", dtype=object)
    reason[s - f <= SEES] = BLIND
    reason[(hits + missed == 0) | (false + rejected == 0)] = NO_LABELS
    reason[n == 0] = NO_IMAGES
    columns = (np.where(reason == "", one, np.nan) for one in (share, low, high, s, f))
    return CorrectedShares(*columns, reason)


@dataclass(frozen=True)
class SharesBetween:
    r"""Where a reading stands between two others.

    Attributes
    ----------
    share : float
        :math:`\pi`: 0 as the reading of what is not, 1 as that of what is; NaN where undefined.
    values : ndarray of float64, shape (n_prompts,)
        What each prompt stands for: their mean is the share, and their spread that of the share. NaN where a prompt
        lacks a reading.
    reach : float
        How far from the share a prompt's value can lie.
    reason : str
        Why the share is NaN; empty where it is not.
    """

    share: float
    values: NDArray[np.float64]
    reach: float
    reason: str


def shares_between(
    said: ArrayLike, not_so: ArrayLike, all_so: ArrayLike, *, level: float = 0.95
) -> SharesBetween:
    r"""Set the reading of one word right by the readings of two whose shares are 0 and 1, prompt by prompt.

    .. math:: \hat\pi = \sum_i (p_i - f_i) / \sum_i (s_i - f_i)

    with what the reader says of a prompt's images: :math:`p_i` with the word in question, :math:`f_i` with the word
    whose images are not, :math:`s_i` with the one whose images are. To first order a prompt stands for
    :math:`\hat\pi + (p_i - (1 - \hat\pi) f_i - \hat\pi s_i) / (\bar s - \bar f)`: intervals and tests over prompts
    take these values, and so the errors of the two readings, too.

    Parameters
    ----------
    said, not_so, all_so : array_like of float, shape (n_prompts,)
        Shares of a prompt's images of which the reader says yes, 0 to 1; NaN where there is none.
    level : float
        At which the reader must tell the two words apart (Student's t), else there is no share.

    Source
    ------
    Rogan and Gladen 1978; the linearisation is the ratio estimator's of survey sampling (Cochran 1977, section 6.3).

    Examples
    --------
    A reader says yes to 0.8 of what is, 0.2 of what is not, and half of the images in question.

    >>> shares_between([0.5, 0.5, 0.5], [0.2, 0.1, 0.3], [0.8, 0.9, 0.7]).share
    0.5
    """
    p, f, s = (np.asarray(one, np.float64) for one in (said, not_so, all_so))
    known = ~np.isnan(p + f + s)
    apart = np.where(known, s - f, np.nan)
    reason = str(no_total(apart[:, None], level)[0])
    if reason:
        told = f"the words whose images are and are not: {reason}"
        return SharesBetween(np.nan, np.full(len(p), np.nan), np.nan, told)
    length = apart[known].mean()
    share = float((p - f)[known].mean() / length)
    values = np.where(known, share + (p - (1 - share) * f - share * s) / length, np.nan)
    return SharesBetween(share, values, float((1 + abs(share)) / abs(length)), "")
