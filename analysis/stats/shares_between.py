r"""Shares set right by words whose shares are known.

Without labels, what a reader says of images whose share is 1 and 0 by their prompts, of a word that means one of two
kinds and of one that means the other, says where the reading of a third word stands between theirs, whatever the reader
confuses alike for all three. With labelled images: `analysis.stats.reader_correction`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.shares import no_total


@dataclass(frozen=True)
class SharesBetween:
    r"""Where a reading stands between two others.

    Attributes
    ----------
    share : float
        :math:`\pi`: 0 as the reading of what is not, 1 as that of what is; NaN where undefined.
    values : ndarray of float64, shape (n_prompts,)
        What each prompt stands for: their mean is the share, and their spread that of the share. NaN where a prompt
        lacks a reading.
    reach : float
        How far from the share a prompt's value can lie.
    reason : str
        Why the share is NaN; empty where it is not.
    """

    share: float
    values: NDArray[np.float64]
    reach: float
    reason: str


def shares_between(
    said: ArrayLike, not_so: ArrayLike, all_so: ArrayLike, *, level: float = 0.95
) -> SharesBetween:
    r"""Set the reading of one word right by the readings of two whose shares are 0 and 1, prompt by prompt.

    .. math:: \hat\pi = \sum_i (p_i - f_i) / \sum_i (s_i - f_i)

    with what the reader says of a prompt's images: :math:`p_i` with the word in question, :math:`f_i` with the word
    whose images are not, :math:`s_i` with the one whose images are. To first order a prompt stands for
    :math:`\hat\pi + (p_i - (1 - \hat\pi) f_i - \hat\pi s_i) / (\bar s - \bar f)`: intervals and tests over prompts
    take these values, and so the errors of the two readings, too.

    Parameters
    ----------
    said, not_so, all_so : array_like of float, shape (n_prompts,)
        Shares of a prompt's images of which the reader says yes, 0 to 1; NaN where there is none.
    level : float
        At which the reader must tell the two words apart (Student's t), else there is no share.

    Source
    ------
    Rogan and Gladen 1978; the linearisation is the ratio estimator's of survey sampling (Cochran 1977, section 6.3).

    Examples
    --------
    A reader says yes to 0.8 of what is, 0.2 of what is not, and half of the images in question.

    >>> shares_between([0.5, 0.5, 0.5], [0.2, 0.1, 0.3], [0.8, 0.9, 0.7]).share
    0.5
    """
    p, f, s = (np.asarray(one, np.float64) for one in (said, not_so, all_so))
    known = ~np.isnan(p + f + s)
    apart = np.where(known, s - f, np.nan)
    reason = str(no_total(apart[:, None], level)[0])
    if reason:
        told = f"the words whose images are and are not: {reason}"
        return SharesBetween(np.nan, np.full(len(p), np.nan), np.nan, told)
    length = apart[known].mean()
    share = float((p - f)[known].mean() / length)
    values = np.where(known, share + (p - (1 - share) * f - share * s) / length, np.nan)
    return SharesBetween(share, values, float((1 + abs(share)) / abs(length)), "")
