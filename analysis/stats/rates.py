"""Recall and precision of a detector by object and indicator, with intervals over prompts.

A detector that sees less on the images of one indicator makes a difference of its own, so each rate stands beside its
difference between indicators. The truth comes from elsewhere: toyworld's checker
(`analysis.tables.objects.detector_error`) or human labels (`analysis.studies.labels.detector`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.proportions import effective, square_and_add, wilson_interval
from analysis.stats.resampling import ONE_PROMPT

ALL = "all"
COLUMNS = ("quantity", "object", "indicator", "value", "low", "high", "n", "n_prompts", "reason")
NOTHING_THERE = {"recall": "nothing there to be detected", "precision": "nothing detected"}


def detection_rates(
    items: pd.DataFrame,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]] = (),
    level: float = 0.95,
) -> pd.DataFrame:
    """Return recall (detected, of what is there) and precision (there, of what is detected), with columns `COLUMNS`.

    Of items, one row per image and object that was asked for: ``prompt``, ``indicator``, ``object``, ``truth`` and
    ``detected`` (bool). Rows are every quantity for every object and for ``all`` of them, at every indicator, at
    ``all`` of them and for every contrast (``masculine-feminine``, the first indicator less the second). ``low`` and
    ``high`` are Wilson's interval with the effective size (`analysis.stats.proportions.effective`); those of a
    difference join the two by the square-and-add rule with the correlation over prompts (Newcombe 1998).
    ``n``: items in the denominator (of both, for a difference); ``n_prompts``: prompts that have any.

    >>> rows = [(0, "f", "hat", True, True), (1, "f", "hat", True, False), (1, "f", "cup", False, True)]
    >>> items = pd.DataFrame(rows, columns=["prompt", "indicator", "object", "truth", "detected"])
    >>> rates = detection_rates(items, indicators=["f"]).set_index(["quantity", "object", "indicator"])
    >>> float(rates.loc[("recall", "hat", "f"), "value"]), rates.loc[("recall", "cup", "f"), "reason"]
    (0.5, 'nothing there to be detected')
    """
    items = items[items["indicator"].isin(list(indicators))]
    prompt, prompts = pd.factorize(items["prompt"])
    objects = [ALL, *sorted(items["object"].unique())]
    what = pd.Index(objects).get_indexer(items["object"])
    group = pd.Index(list(indicators)).get_indexer(items["indicator"]) + 1
    truth, detected = (items[name].to_numpy(bool) for name in ("truth", "detected"))
    shape = (len(prompts), len(objects), len(indicators) + 1)

    def total(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        cells = np.zeros(shape)
        np.add.at(cells, (prompt[chosen], what[chosen], group[chosen]), 1.0)
        cells[:, 0] = cells.sum(axis=1)
        cells[:, :, 0] = cells.sum(axis=2)
        return cells

    hits = total(truth & detected)
    names = [ALL, *indicators]
    compared = [(name, place, None) for place, name in enumerate(names)]
    compared += [
        (f"{a}-{b}", names.index(a), names.index(b)) for a, b in contrasts if {a, b} <= set(indicators)
    ]
    tables = []
    for quantity, chosen in (("recall", truth), ("precision", detected)):
        of = total(chosen)
        rate, size, pull = effective(hits, of)
        ends = wilson_interval(rate, size, level)
        for label, a, b in compared:
            columns = [a] if b is None else [a, b]
            value, (low, high) = rate[:, a], (end[:, a] for end in ends)
            if b is not None:
                other = (end[:, b] for end in ends)
                low, high = square_and_add(
                    value, (low, high), rate[:, b], tuple(other), _correlation(pull, a, b)
                )
                value = value - rate[:, b]
            reason = np.full(len(value), "", dtype=object)
            reason[np.isnan(low)] = ONE_PROMPT
            reason[np.isnan(value)] = NOTHING_THERE[quantity]
            number, prompts_with = of[:, :, columns].sum(axis=(0, 2)), (of[:, :, columns] > 0).any(axis=2)
            row = (quantity, objects, label, value, low, high, number.astype(np.int64))
            row = (*row, prompts_with.sum(axis=0), reason)
            tables.append(pd.DataFrame(dict(zip(COLUMNS, row))))
    return pd.concat(tables, ignore_index=True)


def _correlation(pull: NDArray[np.float64], a: int, b: int) -> NDArray[np.float64]:
    """The correlation of two rates over prompts, 0 where one does not vary."""
    both = (pull[:, :, a] * pull[:, :, b]).sum(axis=0)
    alone = np.sqrt((pull[:, :, a] ** 2).sum(axis=0) * (pull[:, :, b] ** 2).sum(axis=0))
    return np.divide(both, alone, out=np.zeros(len(both)), where=alone > 0)
