r"""Shares of an answer among decided pictures, from people's labels of some and a machine's readings of all.

Of :math:`N` pictures of a group people labelled :math:`n`, chosen at random: :math:`y` is 1 where they gave the answer,
:math:`d` where they decided at all; :math:`p` and :math:`q` are what the machine says of the same. Each mean is that of
`analysis.stats.prediction_powered`,

.. math:: \hat Y = \overline{(w p)}_N + \overline{(y - w p)}_n, \qquad \hat R = \hat Y / \hat D ,

with weights that are fitted without the label of the picture which they enter by (cross-fitting), so that the errors of
the machine, however they differ between groups, leave no bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.stats.effects import wilson_interval
from analysis.stats.prediction_powered import FEW, known_mean, known_variance, weights

FEW_LABELS = f"fewer than {FEW} labelled pictures"
NONE_DECIDED = "no decided picture among the labelled"


@dataclass(frozen=True)
class PoweredShares:
    """Shares by group; arrays of shape (n_groups,).

    Attributes
    ----------
    share, low, high : ndarray of float64
        Within 0 to 1, NaN with a reason.
    effective : ndarray of float64
        Decided pictures, labelled by people, that would tell as much.
    labelled, pictures : ndarray of int64
    weight : ndarray of float64
        Of the machine's readings, the mean over the labelled pictures.
    reason : ndarray of object
    """

    share: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    effective: NDArray[np.float64]
    labelled: NDArray[np.int64]
    pictures: NDArray[np.int64]
    weight: NDArray[np.float64]
    reason: NDArray[np.object_]


def powered_shares(labels: ArrayLike, predictions: ArrayLike, *, level: float = 0.95) -> PoweredShares:
    r"""Return the share of each group with its interval.

    Parameters
    ----------
    labels : array_like of float, shape (n_groups, n_pictures, 2)
        1 or 0: whether people gave the answer, and whether they decided; NaN where nobody labelled.
    predictions : array_like of float, shape (n_groups, n_pictures, 2)
        What the machine says of the same; NaN where there is no picture.
    level : float

    Notes
    -----
    With :math:`e = (y - w p - \hat R (d - v q)) / \hat D` the variance is that of the pictures and that of which of
    them were labelled, :math:`\hat R (1 - \hat R) / (N \hat D) + (1 / n - 1 / N)\, s_e^2`. The interval is Wilson's for
    as many pictures as have this variance (Korn and Graubard 1998), with Student's quantile for the part that the
    labels estimate. For that number a picture with the answer and one without it are added to the labelled ones, on one
    of which the machine errs: what none of a few showed may be there.

    Source
    ------
    Angelopoulos et al. 2023 and Zrnic and Candès 2024 for the means; Woodruff 1971 for the ratio.
    """
    y, p = np.asarray(labels, float), np.asarray(predictions, float)
    w = weights(y, p)
    there, known = ~np.isnan(p[..., :1]), ~np.isnan(y[..., :1])
    n, size = known.sum(axis=(1, 2)), there.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = np.where(there, p - known_mean(p, there)[:, None], 0.0)
        errors = y - w * centred
        means = known_mean(w * centred, there) + known_mean(errors, known)
        decided = np.clip(means[:, 1], known_mean(y, known)[:, 1] / 2, 1.0)
        share = np.clip(means[:, 0] / decided, 0.0, 1.0)
        spread = (
            known_variance(errors[..., 0] - share[:, None] * errors[..., 1], known[..., 0], n) / decided**2
        )
        smoothed = (share * n * decided + 1) / (n * decided + 2)
        variance = smoothed * (1 - smoothed) / decided
        once_more = (n * spread + 1) / (n + 2)  # the machine wrong once more among two pictures more
        of_labels = (1 / n - 1 / size) * np.maximum(spread, np.minimum(once_more, variance))
        total = variance / size + of_labels
        freedom = total**2 / (of_labels**2 / (n - 1))
        ratio = stats.norm.ppf((1 + level) / 2) / stats.t.ppf((1 + level) / 2, freedom)
        effective = variance * decided / total * np.where(np.isnan(ratio), 1, ratio) ** 2
        effective = np.clip(effective, 0, size * decided)
    reason = np.full(len(n), "", object)
    reason[known_mean(y, known)[:, 1] == 0] = NONE_DECIDED
    reason[n < np.minimum(FEW, np.maximum(size, 1))] = FEW_LABELS
    blank = np.where(reason == "", 0.0, np.nan)
    low, high = wilson_interval(share + blank, effective + blank, level)
    weight = known_mean(w, known)[:, 0]
    return PoweredShares(share + blank, low, high, effective + blank, n, size, weight + blank, reason)
