"""How far does an object lean to one word? Bias scores and differences of presence, with intervals over prompts.

Wu et al. 2025, Eq. 5, gives a score and no interval. An object detected in three images, all of one word, has the
score 1 like one detected in three thousand; the interval tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.object_tables import ObjectTable
from analysis.object_tests import NEVER, NO_DIFFERENCE, NO_IMAGES, normal_quantile
from analysis.paired import wilson_interval
from analysis.resampling import BLOCK, ONE_PROMPT, column_quantiles, resample_counts
from analysis.statistics import ONE_SIDED, bca_probabilities

INTERVALS = ("wilson", "percentile", "bca")


@dataclass(frozen=True)
class Scores:
    """One number an object with its interval; arrays have shape (n_objects,), NaN where undefined.

    Attributes
    ----------
    value, low, high : ndarray of float64
    n : ndarray of int64
        Prompts at which the object was detected for either word.
    reason : ndarray of object (str)
        Why the interval is NaN; empty where it is not.
    level : float
    method : str
    """

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]
    level: float
    method: str


def bias_scores(
    table: ObjectTable,
    first: str,
    second: str,
    *,
    of: str = "presence",
    method: str = "wilson",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Scores:
    r"""Bias score :math:`BS = C_2 / (C_1 + C_2)` of every object, with an interval over prompts.

    Range 0 to 1; 1/2 is no difference, 1 an object of the second word only. Both words have the same number of
    images here, so Eq. 5's factor is 1. ``wilson``: Wilson's interval with the effective size
    :math:`BS (1 - BS) / v`, v the linearised variance over prompts; where one word never has the object, the number
    of prompts that have it. ``percentile`` and ``bca``: bootstrap over prompts; they are blind to what was never
    seen, and give no interval where one word never has the object.

    Parameters
    ----------
    table : ObjectTable
    first, second : str
        Indicators; the paper's are feminine and masculine.
    of : {"presence", "detections"}
        ``detections`` is the paper's C (Eq. 3).
    method : {"wilson", "percentile", "bca"}
    level : float
    resamples, seed : int
        Of the bootstraps.

    Source
    ------
    Wu et al. 2025, Eq. 5; Zhao et al. 2017; Korn and Graubard 1998 for the effective size; Wilson 1927.

    Examples
    --------
    >>> import pandas as pd
    >>> from analysis.object_tables import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(4) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(images, [[0], [1]] * 3 + [[1], [0]], indicators="fm", objects=["hat"])
    >>> bias_scores(table, "f", "m").value.tolist()
    [0.75]
    """
    x1, x2 = (table.values(of)[:, table.column(name)].astype(np.float64) for name in (first, second))
    c1, c2 = table.by_object(x1), table.by_object(x2)
    both = c1 + c2
    n = table.by_object(((x1 + x2) > 0).astype(np.int64))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(both > 0, c2 / both, np.nan)
        pull = (x2 * (1 - value[table.object]) - x1 * value[table.object]) / both[table.object]
        spread = table.by_object(np.nan_to_num(pull) ** 2)
        reason = _reasons(table, both, (spread > 0) | (value == 0) | (value == 1))
        if method == "wilson":
            variance = spread * n / np.where(n > 1, n - 1, np.nan)
            size = np.where((value == 0) | (value == 1), n, value * (1 - value) / variance)
            reason[(reason == "") & ~(size > 0)] = ONE_PROMPT
            low, high = wilson_interval(value, np.nan_to_num(size), level)
        else:
            draws = bootstrap_totals(table, (first, second), of=of, resamples=resamples, seed=seed)
            acceleration = table.by_object(np.nan_to_num(pull) ** 3) / (6 * spread**1.5)
            low, high = _ends(draws[1] / draws.sum(axis=0), value, acceleration, method, level, reason)
    low, high = (np.where(reason == "", end, np.nan) for end in (low, high))
    return Scores(value, low, high, n, reason, level, method)


def presence_differences(
    table: ObjectTable,
    first: str,
    second: str,
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Scores:
    """Part of the images with the object, second word less first, with a bootstrap interval over prompts.

    Range −1 to 1; 0 is no difference. See `bias_scores` for the parameters; ``wilson`` is not among the methods.
    """
    if method not in ("percentile", "bca"):
        raise ValueError(f"method: expected percentile or bca, got {method!r}")
    x1, x2 = (table.presence[:, table.column(name)].astype(np.float64) for name in (first, second))
    images = float(table.n_images)
    n = table.by_object(((x1 + x2) > 0).astype(np.int64))
    total = table.by_object(x2 - x1)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where((images > 0) & (n > 0), total / (images or np.nan), np.nan)
        # deviations of all prompts from the mean: those without the object have only the mean's part
        pull = (x2 - x1) - value[table.object] * table.seeds[table.prompt]
        square = table.by_object(pull**2 - (value[table.object] * table.seeds[table.prompt]) ** 2)
        square += (value**2) * float((table.seeds.astype(np.float64) ** 2).sum())
        cube = table.by_object(pull**3 + (value[table.object] * table.seeds[table.prompt]) ** 3)
        cube -= (value**3) * float((table.seeds.astype(np.float64) ** 3).sum())
        reason = _reasons(table, table.by_object(x1 + x2), table.by_object((x1 != x2).astype(np.int64)) > 0)
        draws = bootstrap_totals(table, (first, second), resamples=resamples, seed=seed)
        counts = resample_counts(len(table.prompts), resamples, seed) if len(table.prompts) else None
        drawn = counts.astype(np.int64) @ table.seeds if counts is not None else np.full(resamples, np.nan)
        low, high = _ends(
            (draws[1] - draws[0]) / drawn, value, cube / (6 * square**1.5), method, level, reason
        )
    return Scores(value, low, high, n, reason, level, method)


def bootstrap_totals(
    table: ObjectTable,
    indicators: tuple[str, ...],
    *,
    of: str = "presence",
    resamples: int = 2000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Totals of every object in every resample of the prompts, shape (n_indicators, n_objects, resamples).

    The resamples are those of `statistics.bootstrap_interval` with the same seed and number of prompts.
    """
    matrices = [table.matrix(name, of=of) for name in indicators]
    result = np.empty((len(indicators), len(table.objects), resamples))
    if len(table.prompts) == 0:
        return np.full_like(result, np.nan)
    counts = resample_counts(len(table.prompts), resamples, seed)
    for start in range(0, resamples, BLOCK):
        weights = np.ascontiguousarray(counts[start : start + BLOCK].T, dtype=np.float32)
        for place, matrix in enumerate(matrices):
            result[place, :, start : start + BLOCK] = matrix @ weights  # whole numbers below 2^24: exact
    return result


def _ends(
    draws: NDArray[np.float64],
    value: NDArray[np.float64],
    acceleration: NDArray[np.float64],
    method: str,
    level: float,
    reason: NDArray[np.object_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the bootstrap intervals; adds to the reasons."""
    normal_quantile(level)
    draws = draws.T
    if method == "bca":
        # a draw that equals the value but for rounding is a tie
        near = np.abs(draws - value) <= 1e-12
        probabilities = bca_probabilities(np.where(near, value, draws), value, acceleration, level)
    elif method == "percentile":
        probabilities = np.repeat([[(1 - level) / 2], [(1 + level) / 2]], len(value), axis=1)
    else:
        raise ValueError(f"method: expected one of {', '.join(INTERVALS)}, got {method!r}")
    ordered = np.sort(draws, axis=0)
    low, high = (column_quantiles(ordered, p) for p in probabilities)
    failed = (reason == "") & ((ordered[0] == ordered[-1]) | np.isnan(low) | np.isnan(high))
    reason[failed] = ONE_SIDED
    return tuple(np.where(reason == "", end, np.nan) for end in (low, high))


def _reasons(table: ObjectTable, seen: NDArray, varies: NDArray[np.bool_]) -> NDArray[np.object_]:
    reason = np.where(varies, "", NO_DIFFERENCE).astype(object)
    reason[seen == 0] = NEVER
    if len(table.prompts) == 1:
        reason[:] = ONE_PROMPT
    if len(table.prompts) == 0:
        reason[:] = NO_IMAGES
    return reason
