"""A few labels and CLIP's reading of every image together: differences on the scale of frequencies, with their error.

C, CC and CLS are on scales of their own and wrong by an amount that nobody knows. Labels of some images, chosen at
random, set both right (`analysis.stats.prediction_powered`): the reading ``PP``. It enters every table as other
readings do, by a value an image whose mean is the estimate; beside that `powered_table` says what the labels alone,
and together with the estimate, tell of the labels that all images would get, and how many of them an interval takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep.scores import Audit, like, place
from analysis.methods.gep.sources import POWERED
from analysis.stats.prediction_powered import (
    PredictionPowered,
    prediction_powered,
    rectified,
    score_interval,
    weights,
)
from probes.config.schema import Config


class Powered:
    """Labels of some images and an estimate of all, of one setting; ``audit`` is their reading `POWERED`."""

    def __init__(self, labels: Audit, estimate: Audit):
        self.labels, self.prediction = labels.source, estimate.source
        self._estimate = estimate
        self._y, self._p = (_by_indicator(one.values) for one in (labels, estimate))
        self._y = np.where(np.isnan(self._p), np.nan, self._y)  # of an image that could not be embedded
        self._weight = weights(self._y, self._p)
        values = rectified(self._y, self._p, self._weight)
        self.audit = replace(estimate, values=_by_context(values, estimate), source=POWERED)

    def pair(self, first: str, second: str) -> PredictionPowered:
        """Return the differences between two indicators, for the labels that all of their images would get."""
        rows = [place(self._estimate, name) for name in (first, second)]
        return prediction_powered(self._y[rows], self._p[rows], weight=self._weight[rows])


def powered(audits: Sequence[Audit], config: Config) -> list[Powered]:
    """Return the prediction-powered readings, one a setting that has labels and the estimate ``gep.prediction``.

    Labels of people are taken as they are, which supposes that their images were chosen at random; where there are
    none, the checker's of ``gep.labelled`` images a word and attribute.
    """
    by = {(one.setting, one.source): one for one in audits}
    result = []
    for setting in dict.fromkeys(one.setting for one in audits):
        estimate = by.get((setting, config.gep.prediction))
        labels = by.get((setting, "human")) or by.get((setting, "checker"))
        if estimate is None or labels is None:
            continue
        labels = like(labels, estimate)
        if labels.source == "checker":
            labels = by_lot(labels, config.gep.labelled, config.measure.seed)
        result.append(Powered(labels, estimate))
    return result


def by_lot(labels: Audit, count: int, seed: int) -> Audit:
    """Return the labels of some images of each indicator and attribute, chosen at random; all where there are fewer."""
    values = _by_indicator(labels.values)
    lots = np.where(np.isnan(values), np.inf, np.random.default_rng(seed).random(values.shape))
    drawn = np.where(lots.argsort(axis=1).argsort(axis=1) < count, values, np.nan)
    return replace(labels, values=_by_context(drawn, labels))


def powered_table(
    readings: Iterable[Powered], compared: Sequence[tuple[str, str, str]], config: Config
) -> pd.DataFrame:
    """Return what labels and estimate say together, one row per setting, pair and attribute (none: the score).

    ``low`` and ``high`` hold what labels of all images of this audit would give; of the score, ``value`` is less what
    its error adds.
    """
    frames = []
    level = config.measure.level
    for one in readings:
        for first, second, kind in compared:
            if not {first, second} <= {*one.audit.indicators}:
                continue
            found = one.pair(first, second)
            (low, high), score = found.interval(level), score_interval(found, level=level)
            known = found.reason == ""
            few = f"{(~known).sum()} of {len(known)} attributes have too few labels"
            columns = {
                "attribute": [*one.audit.attributes, ""],
                "value": [*found.difference, score.score],
                "raw": [*np.abs(found.difference), score.raw],
                "low": [*low, score.low],
                "high": [*high, score.high],
                "reason": [*found.reason, "" if known.all() else few],
            }
            for name, counts in (("labelled", found.labelled), ("images", found.images)):
                for side, row in zip(("first", "second"), counts):
                    columns[f"{name}_{side}"] = [*row, row[known].sum()]
            about = {"setting": one.audit.setting, "labels": one.labels, "prediction": one.prediction}
            about |= {"first": first, "second": second, "kind": kind, "level": level}
            frames.append(pd.DataFrame(columns).assign(**about))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _by_indicator(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values by indicator, of all contexts together: shape (n_indicators, n_contexts * n_images, n_attributes)."""
    return values.swapaxes(0, 1).reshape(values.shape[1], -1, values.shape[3])


def _by_context(values: NDArray[np.float64], one: Audit) -> NDArray[np.float64]:
    """The values of `_by_indicator` as an audit has them."""
    contexts, indicators, images, attributes = one.values.shape
    return values.reshape(indicators, contexts, images, attributes).swapaxes(0, 1)
