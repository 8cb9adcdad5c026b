r"""Shares of a total effect that patches carry: ratios of sums over prompts, with intervals and tests.

A patch moves the outcome of a prompt by :math:`E_i`, the word itself moves it by :math:`T_i`; the share is

.. math:: \theta = \sum_i E_i / \sum_i T_i ,

not a mean of ratios: a prompt at which the words make next to no difference has no ratio worth averaging, and weighs
nothing here. Rows are prompts (their seeds averaged), columns patches; sums run over the prompts that have both.

*Interval*: the share is linear to first order, so a prompt stands for
:math:`v_i = \theta + (E_i - \theta T_i) / \bar T`, whose mean is the share and whose spread is that of the share; its
interval is the ``envelope`` interval of
`analysis.stats.intervals`. Where few prompts carry the variance it is the bounded one of `analysis.stats.rare_changes`,
by the rule that a patch moves no prompt farther than the words moved any.

*Near 0*: where Student's t cannot tell the mean of :math:`T` from 0 at the level of the interval, Fieller's set of
shares is not an interval, and the share is NaN, with the reason.

*Floor*: what a patch does with a word of the same meaning as donor, :math:`F_i`. A patch is beyond the floor where its
effect is larger than the floor's, whichever way either points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.intervals import bootstrap_interval
from analysis.stats.rare_changes import effective_prompts, few_carry, range_of, rare_ends
from analysis.stats.resampling import CONSTANT, matrix, moments, undefined
from analysis.stats.sign_flips import SignFlips, sign_flip_test

NO_TOTAL = "the total effect cannot be told from 0"
ALIKE = "the same share in every prompt"
ROUNDING = 1e-12  # of the largest total effect: sums of effects that cancel leave as much


@dataclass(frozen=True)
class Shares:
    """Shares of a total effect; arrays have shape (n_columns,).

    Attributes
    ----------
    share, low, high : ndarray of float64
        0: the patch does nothing; 1: all that the word does. NaN where undefined; may lie outside of 0 to 1.
    n : ndarray of int64
        Prompts that have both effects.
    n_effective : ndarray of float64
        How many of them carry the variance, see `analysis.stats.rare_changes`.
    reason : ndarray of object (str)
        Why share or interval are NaN; empty where they are not.
    level : float
    resamples, seed : int
        Of the bootstrap.
    """

    share: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    n_effective: NDArray[np.float64]
    reason: NDArray[np.object_]
    level: float
    resamples: int
    seed: int

    def direct(self) -> Shares:
        """Return 1 − share with its interval: of necessity, the direct effect past the patch."""
        return replace(self, share=1 - self.share, low=1 - self.high, high=1 - self.low)


def shares(
    effects: ArrayLike, totals: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Shares:
    r"""Return :math:`\sum_i E_i / \sum_i T_i` of each column with its interval over prompts.

    Parameters
    ----------
    effects : array_like of float, shape (n_prompts, n_columns)
        What each patch does to each prompt, in units of the outcome; NaN where there is none.
    totals : array_like of float, shape (n_prompts,) or (n_prompts, n_columns)
        What the word does to it, in the same units.
    level : float
        Of the interval, and of the rule that tells the total effect from 0.
    resamples, seed : int
        Of the bootstrap.

    Returns
    -------
    Shares

    Raises
    ------
    ValueError
        If the shapes do not go together, or a value is infinite.

    Source
    ------
    Fieller 1954 for when a ratio has an interval; the linearisation is the ratio estimator's of survey sampling
    (Cochran 1977, section 6.3).

    Examples
    --------
    The patch does a quarter of what the word does, in sum.

    >>> found = shares([[1.0], [0.0], [2.0], [1.0]], [4.0, 3.0, 5.0, 4.0])
    >>> found.share.tolist(), bool(found.low[0] < 0.25 < found.high[0])
    ([0.25], True)
    """
    effects, totals = _paired(effects, totals)
    n, total, _ = moments(totals)
    reason = no_total(totals, level)
    told = reason == ""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(told, moments(effects)[1] / total + 0.0, np.nan)  # + 0.0: no -0
        apart = effects - share * totals
        apart = np.where(
            np.abs(apart) > ROUNDING * np.nanmax(np.abs(totals), axis=0, initial=0.0), apart, 0.0
        )
        values = np.where(told & ~np.isnan(effects), share + apart / total, np.nan)
        reach = np.nanmax(np.abs(totals), axis=0, initial=0.0) / np.abs(total)
    found = bootstrap_interval(values, method="envelope", level=level, resamples=resamples, seed=seed)
    low, high, carried = found.low.copy(), found.high.copy(), effective_prompts(values)
    rare = np.flatnonzero(few_carry(carried, found.n) & (found.reason == ""))
    chosen = values[:, rare]
    low[rare], high[rare] = rare_ends(chosen, range_of(chosen, reach[rare]), level, resamples, seed)
    alike = np.where(found.reason == CONSTANT, ALIKE, found.reason)
    return Shares(share, low, high, n, carried, np.where(told, alike, reason), level, resamples, seed)


def no_total(totals: ArrayLike, level: float = 0.95) -> NDArray[np.object_]:
    """Say for each column why no share of it can be stated; an empty text where one can.

    Parameters
    ----------
    totals : array_like of float, shape (n_prompts, n_columns)
    level : float
        Of the two-sided Student's t interval that has to leave out 0: then Fieller's set of shares is an interval.

    Examples
    --------
    >>> no_total([[1.0, 1.0, 0.0], [2.0, -1.0, 0.0], [1.5, 0.1, 0.0]]).tolist()
    ['', 'the total effect cannot be told from 0', 'the total effect cannot be told from 0']
    """
    totals = matrix(totals)
    n, mean, sd = moments(totals)
    reason = undefined(totals)
    with np.errstate(invalid="ignore", divide="ignore"):
        told = np.abs(mean) > special.stdtrit(n - 1, (1 + level) / 2) * sd / np.sqrt(n)
    reason[(reason == CONSTANT) & (mean != 0)] = ""
    reason[((reason == "") & ~told) | (reason == CONSTANT)] = NO_TOTAL
    return reason


def beyond_floor(
    effects: ArrayLike, floor: ArrayLike | None = None, *, permutations: int = 10000, seed: int = 0
) -> SignFlips:
    r"""Test for each patch of a map whether its effect is larger than that of a word of the same meaning.

    With :math:`s_E, s_F` the signs of the means of E and F, the columns :math:`s_E E_i - s_F F_i` are one family of
    sign flips over prompts, adjusted by max-T. If donor and synonym could have changed places the sign of a prompt's
    difference is a fair coin. The two-sided p-value stands where the effect is the larger one, 1 where the floor is.

    Parameters
    ----------
    effects : array_like of float, shape (n_prompts, n_columns)
        Of the patches of one map, in units of the outcome.
    floor : array_like of float, shape (n_prompts, n_columns), optional
        Of the same patches with the synonym as donor; a column without one, or None, is held against 0.
    permutations, seed : int

    Returns
    -------
    SignFlips
        NaN, with the reason, where nothing changed in any prompt.

    Raises
    ------
    ValueError
        `floor` has another shape than the effects.

    Examples
    --------
    Both move the outcome by 1, the second is what a synonym does, too.

    >>> found = beyond_floor([[1.0, 1.0], [1.5, 1.5], [0.9, 0.9]], [[0.0, 1.1], [0.1, 1.6], [0.0, 1.0]])
    >>> found.p_value.tolist()
    [0.25, 1.0]
    """
    effects = matrix(effects)
    floor = np.zeros_like(effects) if floor is None else matrix(floor)
    if floor.shape != effects.shape:
        raise ValueError(f"floor: expected the shape {effects.shape} of the effects, got {floor.shape}")
    floor = np.where(np.isnan(floor).all(axis=0), 0.0, floor)
    with np.errstate(invalid="ignore"):
        margin = _towards(effects) - _towards(np.where(np.isnan(effects), np.nan, floor))
        found = sign_flip_test(margin, permutations=permutations, seed=seed)
        smaller = (found.reason == "") & (moments(margin)[1] <= 0)
    p_value, p_adjusted = (np.where(smaller, 1.0, p) for p in (found.p_value, found.p_adjusted))
    return replace(found, p_value=p_value, p_adjusted=p_adjusted)


def largest_floor(floors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return, column by column, the floor of the synonym whose mean effect is the largest either way, and which it is.

    Parameters
    ----------
    floors : array_like of float, shape (n_synonyms, n_prompts, n_columns)

    Returns
    -------
    (ndarray of float64, shape (n_prompts, n_columns), ndarray of int64, shape (n_columns,))

    Examples
    --------
    >>> floor, which = largest_floor([[[1.0], [1.0]], [[-3.0], [0.0]]])
    >>> floor.ravel().tolist(), which.tolist()
    ([-3.0, 0.0], [1])
    """
    floors = np.asarray(floors, np.float64)
    sizes = np.array([np.abs(moments(one)[1]) for one in floors])
    chosen = np.where(np.isnan(sizes), -1.0, sizes).argmax(axis=0)
    return np.take_along_axis(floors, chosen[None, None, :], axis=0)[0], chosen


def _towards(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The columns, turned so that their means are not negative."""
    return values * np.where(moments(values)[1] < 0, -1.0, 1.0)


def _paired(effects: ArrayLike, totals: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as matrices of one shape, NaN where either is."""
    effects, totals = matrix(effects), np.asarray(totals, np.float64)
    totals = totals[:, None] if totals.ndim == 1 else totals
    if totals.ndim != 2 or totals.shape[0] != len(effects) or totals.shape[1] not in (1, effects.shape[1]):
        raise ValueError(
            f"totals: expected shape ({len(effects)},) or {effects.shape} as the effects have, got {totals.shape}"
        )
    totals = matrix(np.broadcast_to(totals, effects.shape))
    missing = np.isnan(effects) | np.isnan(totals)
    return np.where(missing, np.nan, effects), np.where(missing, np.nan, totals)
