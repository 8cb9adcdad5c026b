"""Tones of the images in which an attribute is read (DALL-Eval, Figure 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import GENDER, TONE, Design, Reading, categories
from analysis.methods.dalleval.tables import ALL
from analysis.stats.design_effect import design_effect
from analysis.stats.effects import wilson_interval

COLUMNS = (
    *("source", "reader", "attribute", "category", "images", "share", "low", "high"),
    *("decided", "present", "level"),
)


def attribute_tones(readings: Sequence[Reading], design: Design) -> pd.DataFrame:
    """Return the share of each Monk tone in the images in which an attribute is read, all main words together.

    Each rule of tones (``source``) is crossed with each ``reader`` of attributes; the attribute `ALL` is every image.
    The ``share`` is of the images that have a tone (``decided``) among those in which the attribute is ``present``,
    with Wilson's interval of the effective size (`analysis.stats.design_effect`: images of a noise are no independent
    ones, unless not `paired`).
    """
    tones = [one for one in readings if one.question == TONE]
    others = [one for one in readings if one.question not in (TONE, GENDER)]
    rows = (
        [row for tone in tones for row in _rows(tone, others, design.main, design.paired)] if others else []
    )
    columns = [name for name in COLUMNS if name not in ("low", "high", "level")]
    frame = pd.DataFrame(rows, columns=[*columns, "effect"])
    low, high = wilson_interval(frame["share"], frame["decided"] / frame["effect"], design.measure.level)
    return frame.assign(low=low, high=high, level=design.measure.level)[list(COLUMNS)]


def _rows(
    tone: Reading, others: Sequence[Reading], main: Sequence[str], paired: bool
) -> Iterator[dict[str, Any]]:
    columns = [tone.words.index(name) for name in main]
    values = tone.values[:, columns]
    for reader in dict.fromkeys(one.source for one in others):
        yield from _shares(tone.source, reader, ALL, values, np.ones(values.shape, dtype=bool), paired)
        for one in others:
            if one.source == reader:
                there = one.values[:, columns] == 1.0
                yield from _shares(tone.source, reader, one.question, values, there, paired)


def _shares(
    source: str,
    reader: str,
    attribute: str,
    tones: NDArray[np.float64],
    there: NDArray[np.bool_],
    paired: bool,
) -> Iterator[dict[str, Any]]:
    chosen = tones[there]
    decided = int((~np.isnan(chosen)).sum())
    counted = np.stack([(tones == category) & there for category in categories(TONE)], axis=-1)
    effect = design_effect(counted.sum(axis=1)) if paired else 1.0
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
            "effect": effect,
        }
