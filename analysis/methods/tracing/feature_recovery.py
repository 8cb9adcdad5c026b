"""Recovery of features whose directions are known: how near found ones come, which are split or missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

Matrix = NDArray[np.float64]

NEAR = 0.5**0.5  # within 45 degrees a direction counts as one for an attribute


@dataclass(frozen=True)
class FeatureRecovery:
    """How directions match the known ones; arrays have shape (attributes,).

    Attributes
    ----------
    match : ndarray of int64
        The direction that belongs to each attribute, -1 where there are fewer directions than attributes.
    cosine : ndarray of float64
        Its absolute cosine with the known direction; 0 without one.
    other : ndarray of float64
        Its largest absolute cosine with the known direction of another attribute; 0 without one.
    near : ndarray of int64
        How many directions are within 45 degrees of the known one, either way, and farther from all others: 1 is ideal,
        0 a miss, more a split feature.
    """

    match: NDArray[np.int64]
    cosine: Matrix
    other: Matrix
    near: NDArray[np.int64]


def recovery(found: ArrayLike, known: ArrayLike, *, labelled: bool = False) -> FeatureRecovery:
    """Match directions with the known ones, so that the sum of absolute cosines is largest, and score them.

    Parameters
    ----------
    found : array_like, shape (directions, channels)
        Of any length; one of length 0 matches nothing.
    known : array_like, shape (attributes, channels)
    labelled : bool
        Whether the method says itself which attribute each direction is for: the first for the first, and so on.

    Raises
    ------
    ValueError
        They have another number of channels, or are not finite.

    Source
    ------
    Hungarian method: `scipy.optimize.linear_sum_assignment`.

    Examples
    --------
    >>> result = recovery([[0.0, -2.0], [1.0, 0.1]], [[1.0, 0.0], [0.0, 1.0]])
    >>> result.match.tolist(), result.cosine.round(3).tolist(), result.near.tolist()
    ([1, 0], [0.995, 1.0], [1, 1])
    """
    found, known = unit(found), unit(known)
    if found.shape[1] != known.shape[1]:
        raise ValueError(f"directions: expected {known.shape[1]} channels, got {found.shape[1]}")
    if labelled and len(found) != len(known):
        raise ValueError(f"directions: expected {len(known)}, one for each attribute, got {len(found)}")
    apart = np.abs(found @ known.T)
    match = np.full(len(known), -1)
    if labelled:
        match[: len(found)] = np.arange(len(found))
    else:
        rows, columns = linear_sum_assignment(apart, maximize=True)
        match[columns] = rows
    there = match >= 0
    others = apart[match] * (1 - np.eye(len(known)))
    return FeatureRecovery(
        match=match,
        cosine=np.where(there, apart[match, np.arange(len(known))], 0.0),
        other=np.where(there, others.max(1, initial=0.0), 0.0),
        near=((apart >= NEAR) & (np.arange(len(known)) == apart.argmax(1)[:, None])).sum(0),
    )


def matched(found: ArrayLike, known: ArrayLike, result: FeatureRecovery) -> Matrix:
    """Return each attribute's unit vector, ``(attributes, channels)``, pointing as the known one; zeros without one."""
    chosen = unit(found)[result.match] * (result.match >= 0)[:, None]
    return chosen * np.where((chosen * np.asarray(known, float)).sum(1) < 0, -1.0, 1.0)[:, None]


def unit(values: ArrayLike) -> Matrix:
    """Return rows of length 1, ``(n, channels)``; rows of zeros stay."""
    values = np.asarray(values, float)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"directions: expected finite numbers (n, channels), got shape {values.shape}")
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(length > 0, length, 1.0)
