"""The cosine, written once: of captures on their device, of stored vectors and of counts. No torch."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

Numbers = TypeVar("Numbers")  # an ndarray or a Tensor


def cosine_of(dots: Numbers, norms: Numbers) -> Numbers:
    r"""Cosines from dot products of two vectors each and the products of both their lengths.

    .. math:: \cos(u, v) = \frac{u \cdot v}{\lVert u \rVert \, \lVert v \rVert}

    From -1 to 1, which rounding does not leave; NaN where a vector is zero, which has no direction.

    Source
    ------
    Wu et al. 2025, equations 1 and 2.

    Examples
    --------
    >>> cosine_of(np.array([24.0, 0.0]), np.array([25.0, 0.0])).tolist()
    [0.96, nan]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return (dots / norms).clip(-1.0, 1.0)
