r"""Shares of a total effect that patches carry: ratios of sums over prompts, with intervals and tests.

A patch moves the outcome of a prompt by :math:`E_i`, the word itself moves it by :math:`T_i`; the share is

.. math:: \theta = \sum_i E_i / \sum_i T_i ,

not a mean of ratios: a prompt at which the words make next to no difference has no ratio worth averaging, and weighs
nothing here. Rows are prompts (their seeds averaged), columns patches; sums run over the prompts that have both.

*Sets*: the shares that a test does not reject (`analysis.stats.ratio_sets`), of each place alone and of all places
together; the p-values are those of the same test. Where few prompts carry the variance the interval is as wide as the
bounded one of `analysis.stats.rare_changes`, by the rule that a patch moves no prompt farther than the words moved any;
where all prompts have one share it is that alone: the rule of three.

*Near 0*: where the mean of :math:`T` is not told from 0 at the level of the interval the share is NaN, with the reason.
Where it is only just told a set may have no end.

*Floor*: what a patch does with a word of the same meaning as donor, :math:`F_i`. A patch is beyond the floor where its
effect is larger than the floor's, whichever way either points.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.ratio_sets import RatioSets, mean_p_values, ratio_sets
from analysis.stats.resampling import CONSTANT, matrix, moments, undefined

NO_TOTAL = "the total effect cannot be told from 0"
ALIKE = "the same share in every prompt"
NO_END = "the total effect is only just told from 0: the share has no bound on that side"


@dataclass(frozen=True)
class Shares:
    """Shares of a total effect; arrays have shape (n_columns,).

    Attributes
    ----------
    share, low, high : ndarray of float64
        0: the patch does nothing; 1: all that the word does. NaN where undefined; may lie outside of 0 to 1, and an end
        may be infinite.
    joint_low, joint_high : ndarray of float64
        Of all columns together: so many of them hold their share at once, whichever is picked.
    p_value, p_adjusted : ndarray of float64
        That the share is 0, by the test whose sets these are: of the column alone, and over all.
    n : ndarray of int64
        Prompts that have both effects.
    n_effective : ndarray of float64
        How many of them carry the variance, see `analysis.stats.rare_changes`.
    reason : ndarray of object (str)
        Why share or interval are NaN or an end is infinite, or that all prompts have one share; else empty.
    """

    share: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    joint_low: NDArray[np.float64]
    joint_high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    n: NDArray[np.int64]
    n_effective: NDArray[np.float64]
    reason: NDArray[np.object_]

    def direct(self) -> Shares:
        """Return 1 − share with its intervals: of necessity, the direct effect past the patch."""
        ends = {"low": 1 - self.high, "high": 1 - self.low}
        joint = {"joint_low": 1 - self.joint_high, "joint_high": 1 - self.joint_low}
        return replace(self, share=1 - self.share, **ends, **joint)


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
    Fieller 1954 for the interval of a ratio.

    Examples
    --------
    The patch does a quarter of what the word does, in sum.

    >>> found = shares([[1.0], [0.0], [2.0], [1.0]], [4.0, 3.0, 5.0, 4.0])
    >>> found.share.tolist(), bool(found.low[0] < 0.25 < found.high[0])
    ([0.25], True)
    """
    effects, totals = _paired(effects, totals)
    options = {"level": level, "resamples": resamples, "seed": seed}
    reason = no_total(totals, **options)
    told = np.flatnonzero(reason == "")
    found = ratio_sets(effects[:, told], totals[:, told], **options)
    numbers = np.full((7, effects.shape[1]), np.nan)
    names = ("ratio", "low", "high", "joint_low", "joint_high", "p_value", "p_adjusted")
    numbers[:, told] = [getattr(found, name) for name in names]
    carried = np.full(effects.shape[1], np.nan)
    carried[told] = found.n_effective
    endless = np.isinf(found.low) | np.isinf(found.high)
    reason[told] = np.where(np.isnan(found.n_effective), ALIKE, np.where(endless, NO_END, ""))
    return Shares(*numbers, moments(totals)[0], carried, reason)


def no_total(
    totals: ArrayLike, level: float = 0.95, *, resamples: int = 2000, seed: int = 0
) -> NDArray[np.object_]:
    """Say for each column why no share of it can be stated; an empty text where one can.

    Parameters
    ----------
    totals : array_like of float, shape (n_prompts, n_columns)
    level : float
        Of the test that has to tell its mean from 0 (`analysis.stats.ratio_sets.mean_p_values`).
    resamples, seed : int
        Of its bootstrap.

    Examples
    --------
    >>> no_total([[1.0, 1.0, 0.0], [2.0, -1.0, 0.0], [1.5, 0.1, 0.0], [1.2, 0.0, 0.0]]).tolist()
    ['', 'the total effect cannot be told from 0', 'the total effect cannot be told from 0']
    """
    totals = matrix(totals)
    reason = undefined(totals)
    reason[reason == CONSTANT] = ""
    with np.errstate(invalid="ignore"):
        told = mean_p_values(totals, resamples=resamples, seed=seed) < 1 - level
    reason[(reason == "") & ~told] = NO_TOTAL
    return reason


def beyond_floor(
    effects: ArrayLike,
    totals: ArrayLike,
    floor: ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> RatioSets:
    r"""Return how far each patch of a map is beyond what a word of the same meaning does, and test that it is at all.

    With :math:`s_E, s_F` the signs of the means of E and F, it is :math:`\sum_i (s_E E_i - s_F F_i) / |\sum_i T_i|`: a
    share where the total effect is told from 0. Where it is not, the numbers are NaN, and the p-values those of the
    margins themselves.

    Parameters
    ----------
    effects : array_like of float, shape (n_prompts, n_columns)
        Of the patches of one map, in units of the outcome.
    totals : array_like of float, shape (n_prompts,) or (n_prompts, n_columns)
    floor : array_like of float, shape (n_prompts, n_columns), optional
        Of the same patches with the synonym as donor; a column without one, or None, is held against 0.
    level, resamples, seed

    Returns
    -------
    RatioSets
        Two-sided p-values where the effect is the larger one, 1 where the floor is.

    Raises
    ------
    ValueError
        `floor` has another shape than the effects.

    Examples
    --------
    Both move the outcome by about 1 of 2, the second as far as a synonym does.

    >>> effects = [[1.0, 1.0], [1.5, 1.5], [0.9, 0.9], [1.1, 1.1], [0.8, 0.8], [1.2, 1.2]]
    >>> floor = [[0.0, 1.1], [0.1, 1.6], [0.0, 1.0], [0.1, 1.2], [0.0, 0.9], [0.0, 1.3]]
    >>> found = beyond_floor(effects, [2.0, 2.1, 1.9, 2.0, 2.2, 1.8], floor)
    >>> bool(found.p_value[0] < 0.01), float(found.p_value[1])
    (True, 1.0)
    """
    effects, totals = _paired(effects, totals)
    floor = np.zeros_like(effects) if floor is None else matrix(floor)
    if floor.shape != effects.shape:
        raise ValueError(f"floor: expected the shape {effects.shape} of the effects, got {floor.shape}")
    floor = np.where(np.isnan(floor).all(axis=0), 0.0, floor)
    missing = np.isnan(effects) | np.isnan(floor)
    effects, floor, totals = (np.where(missing, np.nan, part) for part in (effects, floor, totals))
    margin, options = (
        _towards(effects) - _towards(floor),
        {"level": level, "resamples": resamples, "seed": seed},
    )
    told = no_total(totals, **options) == ""
    reach = np.nanmax(np.abs(totals), axis=0, initial=0.0)
    alone = np.where(missing, np.nan, 1.0)
    of_totals = ratio_sets(margin[:, told], _towards(totals[:, told]), **options)
    itself = ratio_sets(margin[:, ~told], alone[:, ~told], reach=reach[~told], **options)
    numbers = {}
    for name in (field.name for field in fields(RatioSets)):
        values = np.full(len(told), 0 if name == "n" else np.nan)
        values[told] = getattr(of_totals, name)
        if name in ("p_value", "p_adjusted", "n", "n_effective"):
            values[~told] = getattr(itself, name)
        if name in ("p_value", "p_adjusted"):
            with np.errstate(invalid="ignore"):
                values = np.where(moments(margin)[1] <= 0, 1.0, values)
        numbers[name] = values.astype(np.int64) if name == "n" else values
    return RatioSets(**numbers)


def largest_floor(floors: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return, column by column, the floor of the synonym whose mean effect is the largest either way, and which it is.

    Of floors (n_synonyms, n_prompts, n_columns): shapes (n_prompts, n_columns) and (n_columns,).
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
