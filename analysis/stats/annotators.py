"""Several annotators of the same questions: what most of them say, and how far they agree beyond chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def majority(answers: ArrayLike) -> NDArray[np.float64]:
    """Return what more than half of the annotators say, 1 or 0, shape (n_questions,); NaN of none, or of a tie.

    Of answers (n_annotators, n_questions), 1 and 0; NaN where an annotator did not answer.

    >>> majority([[1, 0, 1], [1, 0, 0], [0, np.nan, np.nan]]).tolist()
    [1.0, 0.0, nan]
    """
    values = np.asarray(answers, float)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nansum(values, axis=0) / (~np.isnan(values)).sum(axis=0)
    return np.where(share == 0.5, np.nan, np.where(np.isnan(share), np.nan, (share > 0.5).astype(float)))


def no_alpha(answers: ArrayLike) -> str:
    """Return why `krippendorff_alpha` of these answers is NaN; empty where it is not.

    >>> no_alpha([[1, np.nan], [np.nan, 0]]), no_alpha([[1, 1], [1, 1]]), no_alpha([[1, 0], [1, 0]])
    ('nothing has two answers', 'all answers are the same', '')
    """
    values = np.asarray(answers, float)
    known = ~np.isnan(values)
    twice = values[known & (known.sum(axis=0) >= 2)]
    return (
        "nothing has two answers" if not len(twice) else "" if np.ptp(twice) else "all answers are the same"
    )


def krippendorff_alpha(answers: ArrayLike, *, ordinal: bool = False) -> float:
    r"""Return Krippendorff's alpha of nominal or ordinal answers, 1 less observed over expected disagreement.

    1: they agree everywhere; 0: as by chance; below: less than by chance. Of answers (n_annotators, n_questions), any
    numbers as categories, NaN where an annotator did not answer; questions with fewer than two are left out, and alpha
    is NaN where none has two, or all answers are the same. ValueError for another number of axes.

    With :math:`m_u` answers to a question, every ordered pair of them counts :math:`1 / (m_u - 1)` in the table of
    coincidences; categories c and k of which :math:`n_c` and :math:`n_k` answers are differ by 1, or, ordinal, by
    :math:`\bigl(\sum_{g=c}^{k} n_g - (n_c + n_k) / 2\bigr)^2` (Krippendorff 2011).

    >>> krippendorff_alpha([[1, 1, 0, 0], [1, 1, 0, 0]])
    1.0
    """
    values = np.asarray(answers, float)
    if values.ndim != 2:
        raise ValueError(f"answers: expected shape (n_annotators, n_questions), got {values.shape}")
    values = values[:, (~np.isnan(values)).sum(axis=0) >= 2]
    categories = np.unique(values[~np.isnan(values)])
    if len(categories) < 2:
        return np.nan
    counts = np.stack([(values == category).sum(axis=0) for category in categories])
    totals = counts.sum(axis=1)
    rank = np.cumsum(totals) - totals / 2
    apart = (rank[:, None] - rank) ** 2 if ordinal else 1.0 - np.eye(len(totals))
    observed = (apart * ((counts / (counts.sum(axis=0) - 1)) @ counts.T)).sum()
    expected = (apart * np.outer(totals, totals)).sum() / (totals.sum() - 1)
    return float(1 - observed / expected)
