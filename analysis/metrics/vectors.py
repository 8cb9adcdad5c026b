"""Vectors compared: cosines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hooks.cosine import cosine_of


def cosines(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the cosine (`hooks.cosine.cosine_of`) of each row of one matrix with the same row of another.

    Parameters
    ----------
    first, second : ndarray, shape (n, d)

    Returns
    -------
    ndarray of float64, shape (n,)
        From -1 to 1; NaN where a vector is zero, which has no direction, or holds NaN.

    Source
    ------
    Wu et al. 2025, section 4.1.3, as equations 1 and 2.

    Examples
    --------
    >>> cosines(np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 2.0], [4.0, 3.0]])).tolist()
    [0.0, 0.96]
    """
    one, other = (np.asarray(matrix, np.float64) for matrix in (first, second))
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return cosine_of(np.einsum("ij,ij->i", one, other), norms)
