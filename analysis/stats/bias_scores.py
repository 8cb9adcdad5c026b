"""Bias scores and differences of presence of objects between two words, with intervals over prompts.

Wu et al. 2025, Eq. 5, gives a score and no interval. An object detected in three images, all of one word, has the
score 1 like one detected in three thousand; the interval tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats.effects import wilson_interval
from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import normal_quantile, reasons
from analysis.stats.resampling import ONE_PROMPT


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
    """

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n: NDArray[np.int64]
    reason: NDArray[np.object_]


def bias_scores(
    table: ObjectTable, first: str, second: str, *, of: str = "presence", level: float = 0.95
) -> ObjectScores:
    r"""Bias score :math:`BS = C_2 / (C_1 + C_2)` of every object, with an interval over prompts.

    Range 0 to 1; 1/2 is no difference, 1 an object of the second word only. Both words have the same number of
    images here, so Eq. 5's factor is 1. The interval is Wilson's with the effective size :math:`BS (1 - BS) / v`, v the
    linearised variance over prompts; where one word never has the object, the number of prompts that have it.

    Parameters
    ----------
    table : ObjectTable
    first, second : str
        Indicators; the paper's are feminine and masculine.
    of : {"presence", "detections"}
        ``detections`` is the paper's C (Eq. 3).
    level : float

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
        edge = (value == 0) | (value == 1)
        reason = reasons(table, varies | edge, both)
        variance = np.where(varies, spread, np.nan) * n / np.where(n > 1, n - 1, np.nan)
        size = np.where(edge, n, value * (1 - value) / variance)
        reason[(reason == "") & ~(size > 0)] = ONE_PROMPT
        low, high = wilson_interval(value, np.nan_to_num(size), level)
    low, high = (np.where(reason == "", end, np.nan) for end in (low, high))
    return ObjectScores(value, low, high, n, reason)


def presence_differences(table: ObjectTable, first: str, second: str, *, level: float = 0.95) -> ObjectScores:
    r"""Part of the images with the object, second word less first, with an interval over prompts.

    Range −1 to 1; 0 is no difference. The interval is normal, from the variance over prompts after adding two prompts,
    each with one image that differs, one either way; it holds for rare objects too.

    Parameters
    ----------
    table : ObjectTable
        Of `analysis.stats.object_counts.object_table`.
    first, second : str
        Indicators.
    level : float
        Of confidence, between 0 and 1.

    Source
    ------
    Bonett and Price 2012 for one seed a prompt.

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
    x1, x2 = (table.presence[:, table.column(name)].astype(np.float64) for name in (first, second))
    prompts, images = len(table.seeds), float(table.n_images)
    n = table.by_object(((x1 + x2) > 0).astype(np.int64))
    total = table.by_object(x2 - x1)
    varies = table.by_object((x1 != x2).astype(np.int64)) > 0
    reason = reasons(table, varies, table.by_object(x1 + x2))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where((images > 0) & (n > 0), total / (images or np.nan), np.nan)
        z, per_prompt = normal_quantile(level), images / max(prompts, 1)
        middle = total / (images + 2 * per_prompt)
        squares = table.by_object((x2 - x1) ** 2) + 2.0
        variance = (squares / per_prompt**2 / (prompts + 2) - middle**2) / (prompts + 2)
        low, high = (np.clip(middle + sign * z * np.sqrt(variance), -1, 1) for sign in (-1, 1))
    low, high = (np.where(reason == "", end, np.nan) for end in (low, high))
    return ObjectScores(value, low, high, n, reason)
