r"""Totals from samples that are drawn one after the other, each in strata that the labels so far suggested.

Which strata a later sample is drawn in, and how many units of each, may follow from all labels before it: given these,
it is a stratified random sample of the units that were not drawn yet. What the first samples know exactly, plus what
the next one estimates of the rest, is therefore an unbiased estimate of the total at every stage (Des Raj 1956),

.. math:: \hat T_k = \sum_{j<k} \sum_{u \in S_j} y_u + \sum_h \frac{N_{kh}}{n_{kh}} \sum_{u \in S_{kh}} y_u,

and so is every mean of them, :math:`\sum_k a_k \hat T_k`, with weights that depend on numbers of units alone. Their
errors have no correlation, so that :math:`a_k` is proportional to one over the variance that a sample without strata
would have. Then stages without strata, or with proportional ones, weigh every unit alike, as one sample would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class SampleStage:
    """One of the samples; arrays of shape (n_strata,).

    Attributes
    ----------
    sizes : ndarray of float64
        Units of each stratum that no earlier stage drew.
    drawn : ndarray of float64
        Units that this stage drew.
    answered : ndarray of float64
        Those of them whose labels count.
    """

    sizes: NDArray[np.float64]
    drawn: NDArray[np.float64]
    answered: NDArray[np.float64]


def stage_weights(stages: Sequence[SampleStage]) -> list[NDArray[np.float64]]:
    """Return how many units of the population a labelled unit stands for, by stage and stratum.

    Parameters
    ----------
    stages : sequence of SampleStage
        In the order in which they were drawn.

    Returns
    -------
    list of ndarray of float64, shape (n_strata,)
        0 in strata without labels. Of a stage with such a stratum no estimate of the rest is made; what it labelled
        stands for itself alone in those of later stages.

    Source
    ------
    Des Raj 1956; the same weights under another name: Farquhar, Gal and Rainforth 2021.

    Examples
    --------
    Ten of 100 units, then ten of the other 90: each stands for five, as in one sample of 20.

    >>> first = SampleStage(np.array([100.0]), np.array([10.0]), np.array([10.0]))
    >>> [
    ...     w.round(9).tolist()
    ...     for w in stage_weights([first, SampleStage(*np.array([[90.0], [10.0], [10.0]]))])
    ... ]
    [[5.0], [5.0]]
    >>> hot = SampleStage(np.array([60.0, 30.0]), np.array([5.0, 5.0]), np.array([5.0, 5.0]))
    >>> [w.round(2).tolist() for w in stage_weights([first, hot])]
    [[5.0], [6.67, 3.33]]
    """
    shares = _shares(stages)
    left = [stage.sizes.sum() for stage in stages]
    weights = []
    for k, stage in enumerate(stages):
        there = stage.answered > 0
        count = np.where(there, stage.answered, 1.0)
        own = shares[k] * stage.sizes / count
        later = shares[k + 1 :].sum()
        known = np.zeros(len(count))
        if later:
            drawn = np.where(there, stage.drawn, 0.0)
            known = (left[k] - left[k + 1]) * drawn / max(drawn.sum(), 1.0) / count
        weights.append(np.where(there, own + later * known, 0.0))
    return weights


def _shares(stages: Sequence[SampleStage]) -> NDArray[np.float64]:
    """Return the weight of each stage's estimate; their sum is 1, or 0 where no stage makes one."""
    precision = np.zeros(len(stages))
    for k, stage in enumerate(stages):
        units, count = stage.sizes.sum(), stage.answered.sum()
        if (stage.answered[stage.sizes > 0] > 0).all() and count:
            if count >= units:  # all is known
                return np.eye(len(stages))[k]
            precision[k] = count / (units * (units - count))
    return precision / precision.sum() if precision.any() else precision


def cut_strata(spread: ArrayLike, number: int) -> NDArray[np.int64]:
    """Return the stratum of each unit, 0 the least spread: strata have about the same sum of spreads.

    Equal numbers of units of each are then Neyman's allocation.

    Parameters
    ----------
    spread : array_like of float, shape (n_units,)
        What each unit is expected to add, in the order in which units of one spread are cut.
    number : int
        Of strata; fewer where there are fewer units.

    Source
    ------
    Wright 1983; Särndal, Swensson and Wretman 1992.

    Examples
    --------
    >>> cut_strata([1, 1, 1, 1, 1, 1, 3, 3], 2).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1]
    """
    values = np.asarray(spread, np.float64)
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(values[order])
    middle = (sums - values[order] / 2) / sums[-1] if len(values) and sums[-1] > 0 else np.arange(len(values))
    place = np.minimum((middle * number).astype(np.int64), number - 1)
    strata = np.zeros(len(values), np.int64)
    strata[order] = np.unique(place, return_inverse=True)[1]
    return strata


def neyman_allocation(sizes: ArrayLike, spreads: ArrayLike, number: int) -> NDArray[np.int64]:
    """Return how many units of each stratum to draw, in proportion to its size and spread.

    Parameters
    ----------
    sizes : array_like of int, shape (n_strata,)
        Units of each stratum.
    spreads : array_like of float, shape (n_strata,)
        Standard deviation of a unit in each.
    number : int
        To draw in all, at least one of each stratum; all units where there are no more.

    Returns
    -------
    ndarray of int64, shape (n_strata,)
        At least two of a stratum that has them, where the number allows it.

    Source
    ------
    Neyman 1934; Wright 2012 for whole numbers.

    Examples
    --------
    >>> neyman_allocation([60, 30, 10], [1, 2, 4], 16).tolist()
    [6, 6, 4]
    >>> neyman_allocation([60, 3], [1, 50], 20).tolist()
    [17, 3]
    """
    most = np.asarray(sizes, np.int64)
    wanted = most * np.asarray(spreads, np.float64)
    least = np.minimum(most, 2 if 2 * len(most) <= number else 1)
    given = least.copy()
    for _ in range(min(number, int(most.sum())) - int(given.sum())):  # the next to where it narrows most
        gain = np.where(given < most, wanted**2 / (given * (given + 1.0)), -1.0)
        given[np.argmax(gain)] += 1
    return given
