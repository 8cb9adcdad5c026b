"""Vectors compared: cosines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cosines(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""Return the cosine of each row of one matrix with the same row of another.

    .. math:: \cos(u, v) = \frac{u \cdot v}{\lVert u \rVert \, \lVert v \rVert}

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
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient = np.einsum("ij,ij->i", one, other) / (
            np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        )
    return np.clip(quotient, -1, 1)
