r"""Is a mean over prompts 0? Sign-flip tests for many columns at once.

`sign_flip_test` draws the same flips for every column, or takes all of them, so that columns can be adjusted together
by max-T. `flip_p_values` has the exact distribution of sums of whole numbers (counts of images), by their
characteristic function.

Sums are exact (`analysis.stats.exact_sums`), so ties are ties. SciPy has the test for one column at a time, without a
shared family; the tests hold this against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.exact_sums import central_sums, on_grid
from analysis.stats.resampling import BLOCK, column_blocks, flipped_sums, matrix, sign_blocks

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
        times, which = np.unique(count, return_inverse=True)
        if times[-1]:
            values *= (np.cos(step * angles) ** times[:, None])[which]
    chance = np.fft.irfft(values, points, axis=1)[:, : reach + 1]  # of the sums 0, 1, …, reach
    inner = np.where(np.arange(reach + 1) < observed[few][:, None], chance, 0.0)
    inside = 2 * inner.sum(axis=1) - inner[:, 0]
    p_value[few] = np.clip(1 - inside, 2.0 ** (1 - np.minimum((whole[:, few] > 0).sum(axis=0), 1000)), 1)
    return p_value


@dataclass(frozen=True)
class SignFlips:
    """Sign-flip tests of the means of a family of columns; arrays have shape (n_columns,), NaN where undefined.

    Attributes
    ----------
    p_value : ndarray of float64
        Of each column alone.
    p_adjusted : ndarray of float64
        Adjusted over the family; never below `p_value`.
    """

    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]


@dataclass(frozen=True)
class FlipColumns:
    r"""Some columns of a family under its flips, not yet adjusted; arrays have shape (n_columns,) but for `largest`.

    Attributes
    ----------
    p_value : ndarray of float64
        See `SignFlips`.
    observed : ndarray of float64
        The statistic that is adjusted, :math:`|\sum_i x_i| / \sqrt{\sum_i x_i^2}`; NaN where undefined.
    largest : ndarray of float64, shape (permutations,)
        Its maximum over these columns under each flip, -inf without a column that is defined.
    exact : bool
        Whether every flip was counted rather than drawn.
    """

    p_value: NDArray[np.float64]
    observed: NDArray[np.float64]
    largest: NDArray[np.float64]
    exact: bool


def sign_flip_test(values: ArrayLike, *, permutations: int = 10000, seed: int = 0) -> SignFlips:
    r"""Test for each column whether its mean over prompts is 0, and adjust over all columns.

    If the two members that are compared could have changed places, the sign of each prompt's difference is a
    fair coin. The p-value is the part of all flips whose absolute mean is at least the one observed, the
    observed one counted: exact over all :math:`2^n` flips where these are at most `permutations`, else
    :math:`(1 + \#)/(1 + \mathrm{permutations})` over flips that are drawn.

    Adjusted (Westfall and Young's single-step max-T): the part of all flips in which any column of the family
    has a statistic of at least this column's, :math:`|\sum_i x_i| / \sqrt{\sum_i x_i^2}`. It grows with
    Student's t alike in all columns, so columns of different scale compete on equal terms.

    Parameters
    ----------
    values : array_like of float, shape (n_prompts, n_columns)
        Paired differences, one row per prompt; NaN where there is none. The columns are one family.
    permutations, seed : int

    Returns
    -------
    SignFlips
        NaN with fewer than two prompts and where all values are 0. Such columns take no part in
        the family.

    Raises
    ------
    ValueError
        If the shape or the number of permutations is out of range, or a value is infinite.

    Source
    ------
    `scipy.stats.permutation_test(permutation_type="samples")` for one column; Westfall and Young 1993 for
    max-T; Phipson and Smyth 2010 for the + 1.

    Examples
    --------
    Three prompts that agree in sign: of 8 flips only all-plus and all-minus reach the mean. The second column
    is reached by 4: its first two values cancel or add up, and the third is 0.

    >>> result = sign_flip_test([[1.0, 1.0], [2.0, 1.0], [3.0, 0.0]])
    >>> result.p_value.tolist()
    [0.25, 0.5]

    Statistics: 6 / sqrt(14) = 1.60 and 2 / sqrt(2) = 1.41, and 4 of 8 flips (first two signs alike) give the
    second column 1.41, two of them (all alike) the first 1.60 as well.

    >>> result.p_adjusted.tolist()
    [0.25, 0.5]
    """
    return adjusted_together([flip_columns(values, permutations=permutations, seed=seed)])


def adjusted_together(shares: Sequence[FlipColumns]) -> SignFlips:
    """Adjust the columns of a family, tested some at a time under the same flips, over all of them by max-T."""
    p_value, observed = (
        np.concatenate([getattr(share, name) for share in shares]) for name in ("p_value", "observed")
    )
    exact, total = shares[0].exact, len(shares[0].largest)
    extra = 0 if exact else 1
    largest = np.sort(np.maximum.reduce([share.largest for share in shares]))
    defined, p_adjusted = ~np.isnan(observed), np.full(len(observed), np.nan)
    exceeded = total - np.searchsorted(largest, observed[defined], side="left")
    p_adjusted[defined] = (exceeded + extra) / (total + extra)
    return SignFlips(p_value, p_adjusted)


def flip_columns(values: ArrayLike, *, permutations: int = 10000, seed: int = 0) -> FlipColumns:
    """Test some columns of a family, with all of its rows; `adjusted_together` adjusts them, see `sign_flip_test`.

    Raises
    ------
    ValueError
        `permutations` is below 1.
    """
    values = matrix(values)
    if permutations < 1:
        raise ValueError(f"permutations: expected at least 1, got {permutations}")
    rows, width = values.shape
    exact = rows < 63 and 2**rows <= permutations
    total, extra = (2**rows, 0) if exact else (permutations, 1)
    p_value, observed = np.full((2, width), np.nan)
    largest = np.full(total, -np.inf)
    signs = sign_blocks(rows, total, exact, seed)
    known = ((~np.isnan(values)).sum(axis=0) > 1) & np.nan_to_num(values).any(axis=0)
    for block in column_blocks(width, rows=max(rows, BLOCK)):
        place = np.flatnonzero(known[block]) + block.start
        if not len(place):
            continue
        whole = on_grid(values[:, place])[0]
        sums, norm = np.abs(whole.sum(axis=0)), np.sqrt(central_sums(whole, 0.0, 2)[0])
        reached, done = np.zeros(len(place), np.int64), 0
        for flipped in flipped_sums(signs, whole):
            flipped = np.abs(flipped)
            reached += (flipped >= sums).sum(axis=0)
            span = slice(done, done + len(flipped))
            largest[span] = np.maximum(largest[span], (flipped / norm).max(axis=1))
            done += len(flipped)
        p_value[place], observed[place] = (reached + extra) / (total + extra), sums / norm
    return FlipColumns(p_value, observed, largest, exact)
