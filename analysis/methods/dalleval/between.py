"""Do professions differ from one another? In what was read of gender, tone and attributes, by word and over words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import LEVEL, Design, Reading, known_mean
from analysis.methods.dalleval.tables import ALL, DRAWS
from analysis.methods.dalleval.words import families
from analysis.stats.group_swaps import group_swaps
from analysis.stats.multiplicity import adjust_p_values
from probes.config.schema import Measure

COLUMNS = (
    *("source", "question", "indicator", "explained", "floor", "p_value", "p_adjusted", "p_page"),
    *("different", "tested", "professions", "images", "draws", "reason"),
)


def between_table(readings: Sequence[Reading], design: Design) -> pd.DataFrame:
    """Return how far professions differ from one another, by reader, question and word, and over all words.

    ``explained``, the share of the variance of what was read that lies between professions (eta squared; of tones, of
    their numbers), beside its ``floor``, the mean where whole noises change places between professions
    (`analysis.stats.group_swaps`), with a p-value adjusted over the words, and of attributes over all attributes of the
    reader and all words. ``different``: professions that differ from all together, adjusted over professions
    (Benjamini–Hochberg). ``images`` counts decided images, in rows of all words noises. ``p_page`` is filled by
    `analysis.methods.dalleval.page_tests.adjust_page`.
    """
    frames = [
        _of_family([design.counted(one) for one in family], design.main, design.measure)
        for family in families(readings)
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))


def _of_family(family: Sequence[Reading], main: Sequence[str], measure: Measure) -> pd.DataFrame:
    """Rows of readings that are adjusted together, of the prompts and draws that the first one has."""
    family = [one for one in family if one.values.shape == family[0].values.shape]
    words = [*main, *([ALL] if len(main) > 1 else [])]
    values = np.concatenate([_columns(one, main) for one in family], axis=2)
    found = group_swaps(values, draws=min(DRAWS, measure.permutations - 1), seed=measure.seed)
    adjusted = np.apply_along_axis(adjust_p_values, 0, found.group_p_value)
    return pd.DataFrame(
        {
            "source": family[0].source,
            "question": np.repeat([one.question for one in family], len(words)),
            "indicator": words * len(family),
            "explained": found.explained,
            "floor": found.floor,
            "p_value": found.p_value,
            "p_adjusted": found.p_adjusted,
            "p_page": np.nan,
            "different": (adjusted < LEVEL).sum(axis=0),
            "tested": (~np.isnan(adjusted)).sum(axis=0),
            "professions": found.groups,
            "images": found.units,
            "draws": found.draws,
            "reason": found.reason,
        }
    )[list(COLUMNS)]


def _columns(reading: Reading, main: Sequence[str]) -> NDArray[np.float64]:
    """What was read of each profession, draw and word, and the mean over words, (professions, draws, words + 1)."""
    values = np.stack([reading.word(name) for name in main], axis=2)
    if len(main) < 2:
        return values
    return np.concatenate([values, known_mean(values, 2)[..., None]], axis=2)
