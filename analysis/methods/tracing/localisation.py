"""Accuracy of localisation: scores of sites, compared with the sites that are known to decide.

A method gives each site (or head, position group, window of steps) a score, a share or any other, larger where it
says that the effect is decided. Of a located benchmark model it is known by wiring which sites do decide. Ties count
against the method, and NaN is the lowest score: what says nothing finds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from analysis.stats.auc import roc_auc


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


def localisation(scores: ArrayLike, truth: ArrayLike) -> Localisation:
    """Ranks and AUROC of the true sites by scores, (n_sites,); without a true site all but the leakage is NaN.

    Where all sites are true, `auroc` and `leakage` are NaN.
    """
    scores, truth = np.asarray(scores, np.float64), np.asarray(truth, bool)
    if scores.ndim != 1 or scores.shape != truth.shape:
        raise ValueError(f"truth: expected the shape of the scores, {scores.shape}, got {truth.shape}")
    off = np.abs(scores[~truth])
    leakage = float(np.nanmax(off)) if len(off) and not np.isnan(off).all() else np.nan
    if not truth.any():
        return Localisation(*[np.nan] * 5, leakage)
    low = np.where(np.isnan(scores), -np.inf, scores)
    ranks = stats.rankdata(-low, method="max")  # of ties the worst
    best, k = float(ranks[truth].min()), int(truth.sum())
    return Localisation(
        rank=best,
        reciprocal_rank=1 / best,
        hit=float(best == 1),
        recall=float((ranks[truth] <= k).mean()),
        auroc=roc_auc(stats.rankdata(low), truth),
        leakage=leakage,
    )
