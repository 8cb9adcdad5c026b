"""Bias scores and differences of presence of objects between two words, with intervals over prompts.

Wu et al. 2025, Eq. 5, gives a score and no interval. An object detected in three images, all of one word, has the
score 1 like one detected in three thousand; the interval tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats.effects import wilson_interval
from analysis.stats.intervals import ONE_SIDED, bca_probabilities
from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import NEVER, NO_DIFFERENCE, NO_IMAGES, normal_quantile
from analysis.stats.resampling import BLOCK, ONE_PROMPT, column_quantiles, resample_counts

INTERVALS = ("wilson", "percentile", "bca")


@dataclass(frozen=True)
class ObjectScores:
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
    draws: ObjectDraws | None = None,
) -> ObjectScores:
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
    draws : ObjectDraws, optional
        Of `bootstrap_totals`, to share them between scores; `resamples` and `seed` are then theirs.

    Source
    ------
    Wu et al. 2025, Eq. 5; Zhao et al. 2017; Korn and Graubard 1998 for the effective size; Wilson 1927.

    Examples
    --------
    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
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
        uneven = x2 * c1[table.object] != x1 * c2[table.object]  # whole numbers: exact
        varies = table.by_object(uneven.astype(np.int64)) > 0
        reason = _reasons(table, both, varies | (value == 0) | (value == 1))
        if method == "wilson":
            variance = np.where(varies, spread, np.nan) * n / np.where(n > 1, n - 1, np.nan)
            size = np.where((value == 0) | (value == 1), n, value * (1 - value) / variance)
            reason[(reason == "") & ~(size > 0)] = ONE_PROMPT
            low, high = wilson_interval(value, np.nan_to_num(size), level)
        else:
            draws = draws or bootstrap_totals(table, (first, second), of=of, resamples=resamples, seed=seed)
            y1, y2 = draws.of_pair(first, second, of)
            acceleration = table.by_object(np.nan_to_num(pull) ** 3) / (6 * spread**1.5)
            low, high = _ends(y2 / (y1 + y2), value, acceleration, method, level, reason)
    low, high = (np.where(reason == "", end, np.nan) for end in (low, high))
    return ObjectScores(value, low, high, n, reason, level, method)


def presence_differences(
    table: ObjectTable,
    first: str,
    second: str,
    *,
    method: str = "adjusted",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    draws: ObjectDraws | None = None,
) -> ObjectScores:
    r"""Part of the images with the object, second word less first, with an interval over prompts.

    Range −1 to 1; 0 is no difference. ``adjusted``: normal, from the variance over prompts after adding two prompts,
    each with one image that differs, one either way; holds for rare objects too. ``percentile`` and ``bca``: bootstrap
    over prompts, see `bias_scores` for the other parameters.

    Parameters
    ----------
    table : ObjectTable
        Of `analysis.stats.object_counts.object_table`.
    first, second : str
        Indicators.
    method : {"adjusted", "percentile", "bca"}
    level : float
        Of confidence, between 0 and 1.
    resamples, seed, draws
        Of the bootstrap alone, see `bias_scores`.

    Raises
    ------
    ValueError
        `method` is none of these.

    Source
    ------
    Bonett and Price 2012 for ``adjusted`` with one seed a prompt.

    Examples
    --------
    Of 8 prompts 3 differ one way and 1 the other: 1/4. With the two added, (4 − 2) / 10 and variance
    (6/10 − 0.2²) / 10 = 0.056.

    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(8) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> counts = [[0], [1]] * 3 + [[1], [0]] + [[0], [0]] * 4
    >>> result = presence_differences(
    ...     object_table(images, counts, indicators="fm", objects=["hat"]), "f", "m"
    ... )
    >>> result.value.tolist(), round(float(result.low[0]), 4), round(float(result.high[0]), 4)
    ([0.25], -0.2638, 0.6638)
    """
    if method not in ("adjusted", "percentile", "bca"):
        raise ValueError(f"method: expected adjusted, percentile or bca, got {method!r}")
    x1, x2 = (table.presence[:, table.column(name)].astype(np.float64) for name in (first, second))
    seeds, images = table.seeds.astype(np.float64), float(table.n_images)
    n = table.by_object(((x1 + x2) > 0).astype(np.int64))
    total = table.by_object(x2 - x1)
    reason = _reasons(table, table.by_object(x1 + x2), table.by_object((x1 != x2).astype(np.int64)) > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where((images > 0) & (n > 0), total / (images or np.nan), np.nan)
        if method == "adjusted":
            z, n_prompts = normal_quantile(level), len(seeds) + 2
            middle = total / (images + 2 * (images / max(len(seeds), 1)))
            squares = table.by_object((x2 - x1) ** 2) + 2.0
            per_prompt = images / max(len(seeds), 1)
            variance = (squares / per_prompt**2 / n_prompts - middle**2) / n_prompts
            low, high = (np.clip(middle + sign * z * np.sqrt(variance), -1, 1) for sign in (-1, 1))
        else:
            # deviations of all prompts from the mean: those without the object have only the mean's part
            expected = value[table.object] * table.seeds[table.prompt]
            square = table.by_object((x2 - x1 - expected) ** 2 - expected**2) + value**2 * float(
                (seeds**2).sum()
            )
            cube = table.by_object((x2 - x1 - expected) ** 3 + expected**3) - value**3 * float(
                (seeds**3).sum()
            )
            draws = draws or bootstrap_totals(table, (first, second), resamples=resamples, seed=seed)
            y1, y2 = draws.of_pair(first, second, "presence")
            low, high = _ends(
                (y2 - y1) / draws.images, value, cube / (6 * square**1.5), method, level, reason
            )
    low, high = (np.where(reason == "", end, np.nan) for end in (low, high))
    return ObjectScores(value, low, high, n, reason, level, method)


@dataclass(frozen=True)
class ObjectDraws:
    """Bootstrap totals of objects.

    Attributes
    ----------
    indicators : tuple of str
    totals : ndarray of float64, shape (n_indicators, n_objects, resamples)
    images : ndarray of float64, shape (resamples,)
        Images of each indicator in the resample.
    of : str
        ``presence`` or ``detections``.
    resamples, seed : int
    """

    indicators: tuple[str, ...]
    totals: NDArray[np.float64]
    images: NDArray[np.float64]
    of: str
    resamples: int
    seed: int

    def of_pair(self, first: str, second: str, of: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Totals of two indicators.

        Raises
        ------
        ValueError
            If these are draws of something else.
        """
        if of != self.of or not {first, second} <= set(self.indicators):
            raise ValueError(
                f"draws: expected {of} of {first} and {second}, got {self.of} of {', '.join(self.indicators)}"
            )
        return tuple(self.totals[self.indicators.index(name)] for name in (first, second))


def bootstrap_totals(
    table: ObjectTable,
    indicators: tuple[str, ...],
    *,
    of: str = "presence",
    resamples: int = 2000,
    seed: int = 0,
) -> ObjectDraws:
    """Totals of every object in every resample of the prompts.

    The resamples are those of `analysis.stats.intervals.bootstrap_interval` with the same seed and number of prompts.

    Parameters
    ----------
    table : ObjectTable
        Of `analysis.stats.object_counts.object_table`.
    indicators : tuple of str
        Those to add up.
    of : {"presence", "detections"}
        What is added up.
    resamples, seed : int
        Of the bootstrap over prompts.

    Returns
    -------
    ObjectDraws
        Totals of shape (indicators, n_objects, resamples); NaN in a table without prompts.
    """
    matrices = [table.matrix(name, of=of) for name in indicators]
    totals = np.full((len(indicators), len(table.objects), resamples), np.nan)
    images = np.full(resamples, np.nan)
    if len(table.prompts):
        counts = resample_counts(len(table.prompts), resamples, seed)
        for start in range(0, resamples, BLOCK):
            block = slice(start, start + BLOCK)
            weights = np.ascontiguousarray(counts[block].T, dtype=np.float32)
            images[block] = counts[block].astype(np.float64) @ table.seeds
            for place, matrix in enumerate(matrices):
                totals[place, :, block] = matrix @ weights  # whole numbers below 2^24: exact
    return ObjectDraws(tuple(indicators), totals, images, of, resamples, seed)


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
