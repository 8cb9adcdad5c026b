"""A mean absolute value of differences that are known with error, from the differences and what they err by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from analysis.stats.absolute_mean import AbsoluteMean, added_by_errors, checked_differences


@dataclass(frozen=True)
class EstimatedScore(AbsoluteMean):
    """A mean absolute difference with its interval.

    Attributes
    ----------
    least, most : float
        Between them the score lies whatever the errors add, but for chance.
    """

    least: float
    most: float


def estimated_score(differences: ArrayLike, covariance: ArrayLike, *, level: float = 0.95) -> EstimatedScore:
    r"""Return the mean of the absolute values of differences of which there are estimates without bias.

    An error of size :math:`\sigma` adds :math:`b(v) = E|v + \sigma Z| - |v|` to the absolute value of a difference
    :math:`v` (the folded normal): :math:`\sigma\sqrt{2/\pi}` at 0, nothing far from it. At the estimates, which lie
    farther from 0 than the differences do, :math:`b` is too small. Squares of estimates exceed those of the differences
    by :math:`\sigma^2`, so that :math:`\lambda = \max(0, 1 - \sum\sigma^2 / \sum\hat v^2)` says what share of theirs is
    real (James and Stein 1961, positive part): the score takes off :math:`b(\sqrt\lambda\,\hat v)`, where the squares
    add up to those of the differences. The interval allows for both sides: its lower end takes off :math:`b(\lambda\hat
    v)`, its upper end :math:`b(\hat v)`. The covariance (n, n) is that of the errors, without bias: one that is too
    large makes the score too small.
    """
    v, errors = checked_differences(differences, covariance)
    if not len(v):
        return EstimatedScore(*[np.nan] * 4, 0, np.nan, np.nan)
    size, signs, variance = np.abs(v), np.sign(v), np.diag(errors)
    sigma, raw, squares = np.sqrt(variance), float(size.mean()), float((v**2).sum())
    real = max(0.0, 1.0 - float(variance.sum()) / squares) if squares else 0.0
    # where signs are unsure errors do not cancel as their covariances say
    spread = np.sqrt(max(float(signs @ errors @ signs), float(variance.sum()))) / len(v)
    half = float(stats.norm.ppf((1 + level) / 2) * spread)
    score, least, most = (
        raw - float(added_by_errors(share * size, sigma).mean()) for share in (np.sqrt(real), real, 1.0)
    )
    ends = max(least - half, 0.0), most + half
    return EstimatedScore(max(score, 0.0), *ends, raw, len(v), least, most)
