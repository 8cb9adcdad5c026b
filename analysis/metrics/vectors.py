"""Vectors compared: cosines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hooks.cosine import cosine_of


def cosines(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the cosine (`hooks.cosine.cosine_of`) of each row of one matrix ``(n, d)`` with the same row of another.

    From -1 to 1; NaN where a vector is zero, which has no direction, or holds NaN (Wu et al. 2025, section 4.1.3).
    """
    one, other = (np.asarray(matrix, np.float64) for matrix in (first, second))
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return cosine_of(np.einsum("ij,ij->i", one, other), norms)
