"""Accuracy of localisation: scores of sites, compared with the sites that are known to decide.

A method gives each site (or head, position group, window of steps) a score, a share or any other, larger where it
says that the effect is decided. Of a located benchmark model it is known by wiring which sites do decide. Ties count
against the method, and NaN is the lowest score: what says nothing finds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Span = tuple[int, int]  # of steps, half open


@dataclass(frozen=True)
class Localisation:
    """Scores of a method on one benchmark model; NaN where undefined.

    Attributes
    ----------
    rank : float
        Of the true site that the method ranks best, from 1; sites of the same score all have the worst of their ranks.
    reciprocal_rank : float
        1 / rank; its mean over benchmark models is the mean reciprocal rank (MRR).
    hit : float
        1 where the best site is a true one, else 0.
    recall : float
        Share of the true sites among the best k, with k of them.
    auroc : float
        Probability that a true site has a higher score than another, ties counted half. 1/2: no better than chance.
    leakage : float
        Largest absolute score off the truth.
    """

    rank: float
    reciprocal_rank: float
    hit: float
    recall: float
    auroc: float
    leakage: float


NAMES = tuple(field.name for field in fields(Localisation))


def localisation(scores: ArrayLike, truth: ArrayLike) -> Localisation:
    """Return how well scores of sites find the true ones.

    Parameters
    ----------
    scores : array_like of float, shape (n_sites,)
    truth : array_like of bool, shape (n_sites,)
        Which sites decide.

    Returns
    -------
    Localisation
        Without a true site all but the leakage is NaN; where all are true, `auroc` and `leakage` are.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> found = localisation([0.1, 0.9, -0.2, 0.4], [False, False, False, True])
    >>> found.rank, found.hit, round(found.auroc, 3), found.leakage
    (2.0, 0.0, 0.667, 0.9)
    """
    scores, truth = np.asarray(scores, np.float64), np.asarray(truth, bool)
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"truth: expected the shape of the scores, {scores.shape}, got {truth.shape}")
    off = np.abs(scores[~truth])
    leakage = float(np.nanmax(off)) if len(off) and not np.isnan(off).all() else np.nan
    if not truth.any():
        return Localisation(*[np.nan] * 5, leakage)
    low = np.where(np.isnan(scores), -np.inf, scores)
    ranks = _ranks(scores[None])[0]
    best, k = float(ranks[truth].min()), int(truth.sum())
    return Localisation(
        rank=best,
        reciprocal_rank=1 / best,
        hit=float(best == 1),
        recall=float((ranks[truth] <= k).mean()),
        auroc=_auroc(low, truth),
        leakage=leakage,
    )


def true_ranks(draws: ArrayLike, truth: ArrayLike) -> NDArray[np.int64]:
    """Return the rank of the true site that is ranked best, in each of many draws of the scores, see `Localisation`.

    Parameters
    ----------
    draws : array_like of float, shape (n_draws, n_sites)
    truth : array_like of bool, shape (n_sites,)

    Returns
    -------
    ndarray of int64, shape (n_draws,)

    Raises
    ------
    ValueError
        If the draws are no matrix.

    Examples
    --------
    >>> true_ranks([[0.1, 0.9, 0.4], [0.1, 0.9, 0.9], [0.5, 0.2, 0.4]], [False, False, True]).tolist()
    [2, 2, 2]
    """
    draws = np.asarray(draws, np.float64)
    if draws.ndim != 2:
        raise ValueError(f"draws: expected shape (n_draws, n_sites), got {draws.shape}")
    return _ranks(draws)[:, np.asarray(truth, bool)].min(axis=1)


def _ranks(draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Ranks from 1, the highest score first; of ties the worst, NaN last."""
    low = np.where(np.isnan(draws), -np.inf, draws)
    return (low[:, None, :] >= low[:, :, None]).sum(axis=2)


def _auroc(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """Area under the curve of true against false positives, by ranks (Mann and Whitney)."""
    positive, negative = int(truth.sum()), int((~truth).sum())
    if not negative:
        return np.nan
    above = stats.rankdata(scores)[truth].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))


def overlap(first: Collection[int], second: Collection[int]) -> float:
    """Return intersection over union (IoU) of two sets of steps; NaN where both are empty.

    Examples
    --------
    >>> overlap(range(0, 4), range(2, 6))
    0.3333333333333333
    """
    one, other = set(first), set(second)
    union = one | other
    return len(one & other) / len(union) if union else np.nan


def entering_steps(low: ArrayLike, high: ArrayLike, spans: Sequence[Span]) -> set[int]:
    """Return the steps of all windows whose share differs from none: its interval does not hold 0.

    Where a word enters by some steps alone a swap in any other changes no bit, and its share is exactly 0. How large
    the share of a step is says something else: most is decided by the first steps, whichever are open.

    Parameters
    ----------
    low, high : array_like of float, shape (n_windows,)
        Ends of the intervals; a window with NaN is not counted.
    spans : sequence of (int, int)
        First step of each window and the one after its last.

    Raises
    ------
    ValueError
        There are not as many spans as intervals.

    Examples
    --------
    >>> sorted(entering_steps([0.1, 0.2, 0.0], [0.3, 0.6, 0.0], [(0, 2), (2, 4), (4, 6)]))
    [0, 1, 2, 3]
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not len(low) == len(high) == len(spans):
        raise ValueError(
            f"spans: expected {len(low)}, one for each interval, got {len(spans)} and {len(high)} ends"
        )
    chosen = [span for span, told in zip(spans, (low > 0) | (high < 0), strict=True) if told]
    return {step for first, stop in chosen for step in range(first, stop)}
