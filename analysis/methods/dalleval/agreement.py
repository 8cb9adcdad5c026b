"""How far the readers of an audit of professions agree: image by image, and over professions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import TONE, Reading, averages
from analysis.methods.dalleval.tables import bounded_interval
from analysis.stats.annotators import krippendorff_alpha
from analysis.stats.proportions import linearised
from analysis.stats.reader_correction import NO_IMAGES
from probes.config.schema import Measure

AGREEMENT_COLUMNS = (
    *("question", "first", "second", "same", "low", "high", "alpha", "mean_abs_difference"),
    *("within_1", "within_2", "within_3", "correlation"),
    *("images", "only_first", "only_second", "neither", "professions", "level", "reason"),
)
ALL_ALIKE = "alpha: all answers are the same"


def agreement_table(readings: Sequence[Reading], measure: Measure) -> pd.DataFrame:
    """Return for every two readers of a question how often they say the same.

    ``same``: share of the images that both decided, with its interval over prompts; ``alpha``: Krippendorff's, nominal,
    of tones ordinal; ``within_1`` to ``within_3``: the share at most so many tones apart (the paper's precision@K,
    Table 18, where the second are people).
    """
    rows = []
    for question in dict.fromkeys(one.question for one in readings):
        of_question = [one for one in readings if one.question == question]
        rows += [_agreement(*two, measure) for two in combinations(of_question, 2)]
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _agreement(first: Reading, second: Reading, measure: Measure) -> dict[str, object]:
    planned = first.status != ""
    known = [~np.isnan(one.values) for one in (first, second)]
    both = known[0] & known[1]
    same = both & (first.values == second.values)
    images = int(both.sum())
    share, each = linearised(same.sum(axis=(1, 2)), both.sum(axis=(1, 2)))
    _, low, high = bounded_interval(each[:, None], (0.0, 1.0), measure)
    alpha = krippendorff_alpha(
        np.stack([first.values[both], second.values[both]]), ordinal=first.question == TONE
    )
    apart = np.abs(first.values - second.values)[both]
    of_tones = images > 0 and first.question == TONE
    return {
        "question": first.question,
        "first": first.source,
        "second": second.source,
        "same": share,
        "low": low[0],
        "high": high[0],
        "alpha": alpha,
        "mean_abs_difference": float(apart.mean()) if of_tones else np.nan,
        **{f"within_{k}": float((apart <= k).mean()) if of_tones else np.nan for k in (1, 2, 3)},
        "correlation": _correlation(averages(first), averages(second)),
        "images": images,
        "only_first": int((known[0] & ~known[1]).sum()),
        "only_second": int((known[1] & ~known[0]).sum()),
        "neither": int((planned & ~known[0] & ~known[1]).sum()),
        "professions": int((~np.isnan(each)).sum()),
        "level": measure.level,
        "reason": NO_IMAGES if not images else ALL_ALIKE if np.isnan(alpha) else "",
    }


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    both = ~np.isnan(first) & ~np.isnan(second)
    x, y = first[both], second[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
