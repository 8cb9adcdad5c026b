"""Agreement of the readers of an audit of professions, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.methods.dalleval.scores import TONE, Reading
from analysis.methods.dalleval.tables import NO_IMAGES, bounded_interval
from analysis.stats.proportions import linearised
from probes.config.schema import Measure


def agreement_table(readings: Sequence[Reading], measure: Measure) -> pd.DataFrame:
    """Return for every two readers of a question the share of images of which they say the same, over prompts.

    ``within_1`` to ``within_3``: the share of tones at most so many apart (the paper's precision@K, Table 18, where the
    second are people).
    """
    rows = []
    for question in dict.fromkeys(one.question for one in readings):
        of_question = [one for one in readings if one.question == question]
        rows += [_agreement(*two, measure) for two in combinations(of_question, 2)]
    return pd.DataFrame(rows)


def _agreement(first: Reading, second: Reading, measure: Measure) -> dict[str, object]:
    difference = np.abs(first.values - second.values)
    both = ~np.isnan(difference)
    share, each = linearised((difference == 0).sum(axis=(1, 2)), both.sum(axis=(1, 2)))
    _, low, high = bounded_interval(each[:, None], (0.0, 1.0), measure)
    tones = difference[both & (first.question == TONE)]
    return {
        "question": first.question,
        "first": first.source,
        "second": second.source,
        "same": share,
        "low": low[0],
        "high": high[0],
        **{f"within_{k}": (tones <= k).mean() if tones.size else np.nan for k in (1, 2, 3)},
        "mean_abs_difference": tones.mean() if tones.size else np.nan,
        "images": int(both.sum()),
        "level": measure.level,
        "reason": "" if both.any() else NO_IMAGES,
    }
