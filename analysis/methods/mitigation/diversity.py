r"""How unlike each other images of one word are: the mean distance of two images of other prompts.

A mean over pairs of prompts is no mean over prompts, so that each prompt enters with its jackknife pseudo-value
:math:`n U - (n - 1) U_{-i}`, whose mean is the mean over pairs :math:`U` and whose spread over prompts gives its
standard error (Arvesen 1969).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist


def scene_distances(scenes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of slots in which two scenes differ, over those that neither prompt names, (n, n); NaN where there is none.

    Parameters
    ----------
    scenes : ndarray of int, shape (n, n_slots)
        -1 where a slot is named.

    Examples
    --------
    >>> float(scene_distances(np.array([[1, 2, -1], [1, 3, 4]]))[0, 1])
    0.5
    """
    free = scenes >= 0
    both = free.astype(float) @ free.T.astype(float)
    differ = np.zeros_like(both)
    for column, there in zip(scenes.T, free.T, strict=True):
        differ += (column[:, None] != column[None, :]) & there[:, None] & there[None, :]
    with np.errstate(invalid="ignore"):
        return np.where(both > 0, differ / both, np.nan)


def pixel_distances(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Mean absolute difference of two images over pixels and channels, as a share of the full range, (n, n)."""
    values = pixels.astype(np.float64) / 255
    return cdist(values, values, "cityblock") / max(1, values.shape[1])


def pseudo_values(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Jackknife pseudo-values of the mean distance over pairs, by prompt.

    Parameters
    ----------
    distances : ndarray of float, shape (n, n)
        Symmetric; the diagonal is not read. NaN: pairs that are left out.

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN where fewer than three prompts have a distance.

    Examples
    --------
    Of three distances 1, 2 and 3 the mean is 2.

    >>> pseudo_values(np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0.0]])).tolist()
    [0.0, 2.0, 4.0]
    """
    n = len(distances)
    values = np.array(distances, np.float64)
    np.fill_diagonal(values, np.nan)
    there = ~np.isnan(values)
    sums, counts = np.where(there, values, 0.0).sum(1), there.sum(1)
    if n < 3 or counts.sum() == 0:
        return np.full(n, np.nan)
    total, pairs = sums.sum() / 2, counts.sum() / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return n * total / pairs - (n - 1) * (total - sums) / (pairs - counts)
