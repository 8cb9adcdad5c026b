"""Tones of the images in which an attribute is read (DALL-Eval, Figure 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.dalleval import GENDER, TONE, Reading, categories
from analysis.stats.effects import wilson_interval
from analysis.tables.dalleval import ALL
from probes.config import Measure

COLUMNS = (
    *("source", "reader", "attribute", "category", "images", "share", "low", "high"),
    *("decided", "present", "level"),
)


def attribute_tones(readings: Sequence[Reading], main: Sequence[str], measure: Measure) -> pd.DataFrame:
    """Return the share of each Monk tone in the images in which an attribute is read, all main words together.

    Parameters
    ----------
    readings : sequence of Reading
        Each rule of tones is crossed with each reader of attributes.
    main : sequence of str
        Indicators whose images are taken.
    measure : Measure

    Returns
    -------
    DataFrame
        A row a rule (``source``), ``reader``, ``attribute`` and ``category`` (1 to 10): ``images`` of the tone, their
        ``share`` of those that have a tone (``decided``) among those in which the attribute is ``present``, with
        Wilson's interval; NaN where none has one. The attribute `ALL` is every image, read or not.
    """
    tones = [one for one in readings if one.question == TONE]
    others = [one for one in readings if one.question not in (TONE, GENDER)]
    rows = [row for tone in tones for row in _rows(tone, others, main)] if others else []
    frame = pd.DataFrame(rows, columns=[name for name in COLUMNS if name not in ("low", "high", "level")])
    low, high = wilson_interval(frame["share"], frame["decided"], measure.level)
    return frame.assign(low=low, high=high, level=measure.level)[list(COLUMNS)]


def _rows(tone: Reading, others: Sequence[Reading], main: Sequence[str]) -> Iterator[dict[str, Any]]:
    columns = [tone.words.index(name) for name in main]
    values = tone.values[:, columns]
    for reader in dict.fromkeys(one.source for one in others):
        yield from _shares(tone.source, reader, ALL, values, np.ones(values.shape, dtype=bool))
        for one in others:
            if one.source == reader:
                there = one.values[:, columns] == 1.0
                yield from _shares(tone.source, reader, one.question, values, there)


def _shares(
    source: str, reader: str, attribute: str, tones: NDArray[np.float64], there: NDArray[np.bool_]
) -> Iterator[dict[str, Any]]:
    chosen = tones[there]
    decided = int((~np.isnan(chosen)).sum())
    for category in categories(TONE):
        images = int((chosen == category).sum())
        yield {
            "source": source,
            "reader": reader,
            "attribute": attribute,
            "category": category,
            "images": images,
            "share": images / decided if decided else np.nan,
            "decided": decided,
            "present": int(there.sum()),
        }
