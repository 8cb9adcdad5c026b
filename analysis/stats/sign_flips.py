r"""Exact sign-flip p-values of sums of whole numbers, columns at a time, by their characteristic function."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

EXACT_SUM = 500  # largest sum of absolute differences whose distribution is counted; above, the normal one


def flip_p_values(differences: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`P(|\sum_i \pm d_i| \ge |\sum_i d_i|)` over all signs, for every column; 1 where all are 0.

    Parameters
    ----------
    differences : array_like of int, shape (n_prompts, n_columns)

    Notes
    -----
    The sum has the characteristic function :math:`\prod_i \cos(d_i \theta)`; its distribution is the inverse discrete
    Fourier transform over as many points as it has values.

    Examples
    --------
    Of eight arrangements of ±1, ±1, ±2 two are as far from 0 as 4.

    >>> flip_p_values([[1, 0], [1, 0], [2, 0]]).round(12).tolist()
    [0.25, 1.0]
    """
    whole = np.abs(np.asarray(differences)).astype(np.int64)
    observed, size = np.abs(np.asarray(differences).sum(axis=0)).astype(np.int64), whole.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * special.ndtr(-observed / np.sqrt((whole**2).sum(axis=0)))
    p_value[size == 0] = 1.0
    few = np.flatnonzero((size > 0) & (size <= EXACT_SUM))
    if not len(few):
        return p_value
    reach = int(size[few].max())
    points = 2 * reach + 1
    angles = 2 * np.pi * np.arange(reach + 1) / points  # the others are these mirrored
    values = np.ones((len(few), reach + 1))
    for step in range(1, int(whole[:, few].max()) + 1):
        count = (whole[:, few] == step).sum(axis=0)
        values *= np.cos(step * angles) ** count[:, None]
    chance = np.fft.irfft(values, points, axis=1)[:, : reach + 1]  # of the sums 0, 1, …, reach
    inner = np.where(np.arange(reach + 1) < observed[few][:, None], chance, 0.0)
    inside = 2 * inner.sum(axis=1) - inner[:, 0]
    p_value[few] = np.clip(1 - inside, 2.0 ** (1 - np.minimum((whole[:, few] > 0).sum(axis=0), 1000)), 1)
    return p_value
