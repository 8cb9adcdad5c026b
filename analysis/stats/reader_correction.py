r"""Shares set right for what a reader confuses or leaves undecided: one sample at a time, with an interval.

A reader answers *yes*, *no* or neither. Of the images that are it does so with the probabilities :math:`q_{1a}`, of
those that are not with :math:`q_{0a}`, so that of all images the answer a has the probability
:math:`p_a = \pi q_{1a} + (1 - \pi) q_{0a}`. With two answers this is Rogan and Gladen's (1978)
:math:`\hat\pi = (p - f) / (s - f)`; the third keeps images that are undecided because of what they show, where leaving
them out would take them for undecided by chance. `analysis.stats.detector_correction` holds two sides of many prompts
against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.detector_correction import NO_LABELS

SEES = 0.2  # smallest distance between the answers of the two kinds: below, the reader says next to nothing
BLIND = "the reader hardly tells images that are from those that are not"
NO_IMAGES = "no images"
GAMMA = 2.0  # by how much the odds of two answers may differ from those of the labelled images
_ANSWERS = 3  # yes, no, undecided
_PRIOR = 1 / 3  # images added to each answer of each kind, one in all
_SHARES = np.linspace(0, 1, 101)
_STEPS = 25  # of expectation maximisation; the labels, which are known, carry most of it
_LEAST = 1e-300


@dataclass(frozen=True)
class CorrectedShares:
    """Shares behind a reader that errs; arrays of shape (n,), NaN where undefined.

    Attributes
    ----------
    share, low, high : ndarray of float64
        Within 0 to 1.
    least, most : ndarray of float64
        Between them the share lies if this sample is read otherwise than the labelled images, the odds of any two
        answers differing by a factor of at most `GAMMA`.
    reason : ndarray of object (str)
        Why the numbers are NaN; empty where they are not.
    """

    share: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    reason: NDArray[np.object_]


def corrected_shares(answers: ArrayLike, labels: ArrayLike, *, level: float = 0.95) -> CorrectedShares:
    r"""Set shares right for the errors of a reader, known from labelled images that are not among them.

    Share and error rates are those of the largest joint likelihood of answers and labels, a third of an image added to
    each answer of each kind; the interval holds the shares whose profile likelihood is not refused by the
    likelihood-ratio test, :math:`2 (\ell_{max} - \ell(\pi)) \le t^2`, with the quantile of Student's t of as many
    degrees as there are images but one, since a few images are far from normal. Shares are told in hundredths.

    Parameters
    ----------
    answers : array_like of int, shape (n, 3)
        Images of which the reader says yes, no, and neither.
    labels : array_like of int, shape (n, 2, 3)
        The same of labelled images: of those that are, and of those that are not.
    level : float

    Raises
    ------
    ValueError
        Shapes are others.

    Source
    ------
    Rogan and Gladen 1978; Buonaccorsi 2010, chapter 3; the likelihood of a mixture with training samples is that of
    Hosmer 1973; odds that differ by at most a factor are Rosenbaum's (2002) way to say how much bias would matter.

    Examples
    --------
    A reader that sees half of what is there and invents nothing says yes to 20 of 100 images, and no to the others.

    >>> result = corrected_shares([[20, 80, 0]], [[[500, 500, 0], [0, 1000, 0]]])
    >>> result.share.round(2).tolist(), bool(result.low[0] < 0.4 < result.high[0])
    ([0.4], True)

    One that decides every image that is and half of those that are not: of 60 decided images 40 are, of 80 half.

    >>> corrected_shares([[40, 20, 20]], [[[1000, 0, 0], [0, 500, 500]]]).share.round(2).tolist()
    [0.5]
    """
    c, known = np.asarray(answers, np.float64), np.asarray(labels, np.float64)
    if c.ndim != 2 or c.shape[1] != _ANSWERS or known.shape != (len(c), 2, _ANSWERS):
        raise ValueError(
            f"labels: expected shapes (n, 3) and (n, 2, 3) of answers and labels, got {c.shape} and {known.shape}"
        )
    if not len(c):
        return CorrectedShares(*np.zeros((5, 0)), np.zeros(0, dtype=object))
    both = np.concatenate([c, known.reshape(len(c), -1)], axis=1)
    kinds, place = np.unique(both, axis=0, return_inverse=True)
    found = _of_kinds(kinds[:, :_ANSWERS], kinds[:, _ANSWERS:].reshape(-1, 2, _ANSWERS), level)
    return CorrectedShares(*(column[place.ravel()] for column in found))


def _of_kinds(c: NDArray[np.float64], known: NDArray[np.float64], level: float) -> tuple[NDArray, ...]:
    """The columns of `CorrectedShares` of samples that differ."""
    smoothed = known + _PRIOR
    rates = smoothed / smoothed.sum(axis=2, keepdims=True)
    profile = _profile(c, smoothed)
    best = profile.argmax(axis=1)
    rows = np.arange(len(c))
    n = c.sum(axis=1)
    quantile = special.stdtrit(np.maximum(n - 1, 1), (1 + level) / 2)
    inside = 2 * (profile[rows, best][:, None] - profile) <= quantile[:, None] ** 2
    ends = _SHARES[inside.argmax(axis=1)], _SHARES[len(_SHARES) - 1 - inside[:, ::-1].argmax(axis=1)]
    least, most = _otherwise(c, rates)
    reason = np.full(len(c), "", dtype=object)
    reason[np.abs(rates[:, 0] - rates[:, 1]).sum(axis=1) / 2 <= SEES] = BLIND
    reason[(known.sum(axis=2) == 0).any(axis=1)] = NO_LABELS
    reason[n == 0] = NO_IMAGES
    told = reason == ""
    columns = (np.where(told, one, np.nan) for one in (_SHARES[best], *ends, least, most))
    return *columns, reason


def _profile(c: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest log likelihood at each of `_SHARES`, shape (n, shares), by expectation maximisation of the rates."""
    share = _SHARES[None, :, None]
    totals = known.sum(axis=2)
    q1, q0 = (np.repeat((known[:, k] / totals[:, k, None])[:, None], len(_SHARES), axis=1) for k in (0, 1))
    counts = c[:, None]
    for _ in range(_STEPS):
        there = share * q1
        chance = there / np.maximum(there + (1 - share) * q0, _LEAST)
        q1 = known[:, None, 0] + counts * chance
        q0 = known[:, None, 1] + counts * (1 - chance)
        q1, q0 = q1 / q1.sum(axis=2, keepdims=True), q0 / q0.sum(axis=2, keepdims=True)
    mixed = special.xlogy(counts, np.maximum(share * q1 + (1 - share) * q0, _LEAST))
    return (mixed + special.xlogy(known[:, None, 0], q1) + special.xlogy(known[:, None, 1], q0)).sum(axis=2)


def _otherwise(c: NDArray[np.float64], rates: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """The smallest and the largest likeliest share if the odds of any two answers differ by at most `GAMMA`."""
    root = np.sqrt(GAMMA)
    corners = np.array(list(product((1 / root, root), repeat=2 * _ANSWERS))).reshape(-1, 2, _ANSWERS)
    corners = corners[(np.ptp(corners, axis=2) > 0).any(axis=1)]  # weights that are all alike alter nothing
    least, most = np.ones(len(c)), np.zeros(len(c))
    for corner in corners:
        q = rates * corner
        q = q / q.sum(axis=2, keepdims=True)
        mixed = _SHARES[None, :, None] * q[:, None, 0] + (1 - _SHARES[None, :, None]) * q[:, None, 1]
        share = _SHARES[special.xlogy(c[:, None], np.maximum(mixed, _LEAST)).sum(axis=2).argmax(axis=1)]
        least, most = np.minimum(least, share), np.maximum(most, share)
    return least, most
