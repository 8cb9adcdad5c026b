"""The MAD over all professions beside its floor (DALL-Eval, section 4.2.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import VERSION, AuditDesign, Reading, noise_counts
from analysis.methods.dalleval.tables import with_pooled
from analysis.stats.absolute_mean import AbsoluteMean, absolute_mean
from analysis.stats.mad_floor import design_effect, mad_floor
from probes.config.schema import Measure


def mad_table(readings: Sequence[Reading], professions: pd.DataFrame, design: AuditDesign) -> pd.DataFrame:
    """Return the MAD over all professions beside its floor (Table 8), by reader, question and word.

    ``debiased`` is less what the errors of the shares add to it, with its interval over the images of these
    professions; these errors are multiplied by the design effect of images that share a noise. The interval leaves out
    0 only where the test (``p_value``: is the MAD above its floor?) does: near 0 the errors of few images are far from
    normal. ``p_adjusted`` is filled by `analysis.methods.dalleval.page_tests.adjust_page`.
    """
    rows = []
    for one in with_pooled(readings, design.main):
        kept = design.counted(one)
        counts = noise_counts(kept, shared=design.paired)
        place = (professions["source"] == one.source) & (professions["question"] == one.question)
        place &= professions["profession"].isin(kept.professions)
        for number, word in enumerate(kept.words if kept.professions else ()):
            tested = professions.loc[place & (professions["indicator"] == word), "p_adjusted"].dropna()
            rows.append(
                {
                    "source": one.source,
                    "question": one.question,
                    "indicator": word,
                    **_mad(counts[:, number], design.measure),
                    "different": (tested < design.measure.alpha).sum(),
                    "tested": len(tested),
                }
            )
    table = pd.DataFrame(rows).assign(p_adjusted=np.nan, level=design.measure.level, version=VERSION)
    return table if rows else table.iloc[:0]


def _mad(of_noises: NDArray[np.int64], measure: Measure) -> dict[str, object]:
    """The numbers of a row, from counts of shape (n_professions, n_noises, n_categories)."""
    counts = of_noises.sum(axis=1)
    counts, size = counts[counts.sum(axis=1) > 0], counts.shape[1]
    floor = mad_floor(of_noises, draws=measure.permutations - 1, seed=measure.seed)
    debiased = _debiased(counts, design_effect(of_noises), measure.level)
    return {
        "mad": floor.value,
        "floor": floor.floor,
        "debiased": debiased.score,
        "low": 0.0 if floor.p_value >= measure.alpha else debiased.low,
        "high": min(debiased.high, 2 * (size - 1) / size**2),
        "p_value": floor.p_value,
        "professions": len(counts),
        "images": int(counts.sum()),
        "reason": floor.reason,
    }


def _debiased(counts: NDArray[np.int64], effect: float, level: float) -> AbsoluteMean:
    """The MAD less what the errors of the shares add to it: those of independent images, times the design effect."""
    if not len(counts):
        return absolute_mean([], np.zeros((0, 0)))
    n, size = counts.sum(axis=1), counts.shape[1]
    # with one image more, spread over the categories: shares of images all alike have errors, too
    shares = (counts + 1 / size) / (n[:, None] + 1)
    covariance = np.zeros((counts.size, counts.size))
    for row, (share, images) in enumerate(zip(shares, n)):
        block = slice(row * size, (row + 1) * size)
        covariance[block, block] = (np.diag(share) - np.outer(share, share)) / images * effect
    return absolute_mean((counts / n[:, None] - 1 / size).ravel(), covariance, level=level)
