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

from analysis.stats.effects import wilson_interval
from analysis.stats.resampling import ONE_PROMPT, product, quantiles, resample_counts

ALL = "all"
QUANTITIES = {"recall": "truth", "precision": "detected"}  # and what each is a share of
COLUMNS = (
    "quantity",
    "object",
    "indicator",
    "value",
    "low",
    "high",
    "bootstrap_low",
    "bootstrap_high",
    "n",
    "n_prompts",
    "reason",
)
NOTHING_THERE = {"recall": "nothing there to be detected", "precision": "nothing detected"}
ALWAYS = "every prompt alike"


def detection_rates(
    items: pd.DataFrame,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]] = (),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Return recall (detected, of what is there) and precision (there, of what is detected).

    Range 0 to 1, 1 is best; a difference is that of the first indicator of a contrast less the second, −1 to 1, and 0
    is none. ``low`` and ``high`` of a rate are Wilson's interval with the effective size :math:`r (1 - r) / v`, v the
    linearised variance over prompts, at most the number of items (the number of prompts where r is 0 or 1). Those of
    a difference join the two by the square-and-add rule with the correlation over prompts. ``bootstrap_low`` and
    ``bootstrap_high`` are percentiles over resampled prompts; they cannot be told where every prompt is alike.

    Parameters
    ----------
    items : DataFrame
        One row per image and object that was asked for: ``prompt``, ``indicator``, ``object``, ``truth`` and
        ``detected`` (bool).
    indicators : sequence of str
    contrasts : sequence of (str, str)
        Differences to form.
    level : float
    resamples, seed : int
        Of the bootstrap.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`: every quantity for every object and for ``all`` of them, at every indicator, at ``all`` of
        them and for every contrast (``masculine-feminine``). ``n``: items in the denominator (of both, for a
        difference); ``n_prompts``: prompts that have any.

    Source
    ------
    Wilson 1927; Korn and Graubard 1998 for the effective size; Newcombe 1998 for the difference of paired rates.

    Examples
    --------
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
    counts = resample_counts(len(prompts), resamples, seed) if len(prompts) else None
    names = [ALL, *indicators]
    compared = [(name, name, None) for name in names]
    compared += [(f"{a}-{b}", a, b) for a, b in contrasts if {a, b} <= set(indicators)]
    tables = []
    for quantity, denominator in QUANTITIES.items():
        chosen = truth if denominator == "truth" else detected
        number = total(chosen).sum(axis=0).astype(np.int64)
        rates = _Rates(hits, total(chosen), level, counts, number, undefined=NOTHING_THERE[quantity])
        for label, first, second in compared:
            a = names.index(first)
            columns = rates.of(a) if second is None else rates.difference(a, names.index(second))
            keys = {"quantity": quantity, "object": objects, "indicator": label}
            tables.append(pd.DataFrame(keys | columns))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def effective(
    hits: NDArray, of: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return rates over prompts (axis 0), the sizes that Wilson's interval takes for them, and what each prompt adds.

    The size is :math:`r (1 - r) / v` (Korn and Graubard 1998), v the linearised variance over prompts, at most the
    number of items; the number of prompts where r is 0 or 1; and 0, which gives no interval, with fewer than two
    prompts. What the prompts add to the deviation of a rate has the sum 0.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        size, prompts = of.sum(axis=0), (of > 0).sum(axis=0)
        rate = np.where(size > 0, hits.sum(axis=0) / size, np.nan)
        pull = np.nan_to_num((hits - rate * of) / size)
        spread = (pull**2).sum(axis=0) * prompts / np.where(prompts > 1, prompts - 1, np.nan)
        edge = (rate == 0) | (rate == 1)
        known = np.where(edge, prompts, np.minimum(rate * (1 - rate) / spread, size))
        return rate, np.where(prompts > 1, known, 0), pull


def linearised(totals: NDArray, counts: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means over items, and one value a unit (axis 0) whose mean they are: an interval of these is one of them.

    Of sums of the items' values and numbers of items by unit; NaN without items. The mean of units' own means is
    another quantity, where units have different numbers of items.
    """
    with np.errstate(invalid="ignore"):
        mean = totals.sum(axis=0) / counts.sum(axis=0)
        each = mean + (totals - mean * counts) * ((counts > 0).sum(axis=0) / counts.sum(axis=0))
    return mean, np.where(counts > 0, each, np.nan)


class _Rates:
    """One quantity: hits and denominators of shape (n_prompts, n_objects, n_indicators).

    ``number`` is that of items in each denominator; ``undefined`` is the reason where a denominator is 0.
    """

    def __init__(
        self,
        hits: NDArray,
        of: NDArray,
        level: float,
        counts: NDArray | None,
        number: NDArray[np.int64],
        *,
        undefined: str,
    ):
        self.hits, self.of_, self.level, self.counts = hits, of, level, counts
        self.number, self.undefined = number, undefined
        self.prompts = (of > 0).sum(axis=0)
        self.rate, self.size, self.pull = effective(hits, of)
        self.low, self.high = wilson_interval(self.rate, self.size, level)

    def of(self, g: int) -> dict:
        ends = self.low[:, g], self.high[:, g]
        return self._columns(self.rate[:, g], *ends, self._draws(g), self.number[:, g], self.prompts[:, g])

    def difference(self, a: int, b: int) -> dict:
        value = self.rate[:, a] - self.rate[:, b]
        pulls = self.pull[:, :, a], self.pull[:, :, b]
        with np.errstate(invalid="ignore", divide="ignore"):
            both = (pulls[0] * pulls[1]).sum(axis=0)
            alone = np.sqrt((pulls[0] ** 2).sum(axis=0) * (pulls[1] ** 2).sum(axis=0))
            correlation = np.where(alone > 0, both / alone, 0.0)
            a_down, a_up = self.rate[:, a] - self.low[:, a], self.high[:, a] - self.rate[:, a]
            b_down, b_up = self.rate[:, b] - self.low[:, b], self.high[:, b] - self.rate[:, b]
            down = np.sqrt(np.maximum(a_down**2 - 2 * correlation * a_down * b_up + b_up**2, 0))
            up = np.sqrt(np.maximum(a_up**2 - 2 * correlation * a_up * b_down + b_down**2, 0))
        number = self.number[:, [a, b]].sum(axis=1)
        prompts = ((self.of_[:, :, a] > 0) | (self.of_[:, :, b] > 0)).sum(axis=0)
        return self._columns(
            value, value - down, value + up, self._draws(a) - self._draws(b), number, prompts
        )

    def _draws(self, g: int) -> NDArray[np.float64]:
        if self.counts is None:
            return np.full((1, self.rate.shape[0]), np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            return product(self.counts, self.hits[:, :, g]) / product(self.counts, self.of_[:, :, g])

    def _columns(self, value, low, high, draws: NDArray[np.float64], n, n_prompts) -> dict:
        """Numbers by object with why one is undefined; no bootstrap where there is no interval or all are alike."""
        ends = quantiles(draws, (1 - self.level) / 2, (1 + self.level) / 2)
        alike = np.fmin.reduce(draws, axis=0) == np.fmax.reduce(draws, axis=0)
        single = np.isnan(low)
        reason = np.full(len(value), "", dtype=object)
        reason[alike | np.isnan(ends[0])] = f"bootstrap: {ALWAYS}"
        reason[single] = ONE_PROMPT
        reason[np.isnan(value)] = self.undefined
        bootstrap_low, bootstrap_high = (np.where(alike | single, np.nan, end) for end in ends)
        return {
            "value": value,
            "low": low,
            "high": high,
            "bootstrap_low": bootstrap_low,
            "bootstrap_high": bootstrap_high,
            "n": n,
            "n_prompts": n_prompts,
            "reason": pd.Series(reason),
        }
