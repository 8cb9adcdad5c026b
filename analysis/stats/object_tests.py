"""Single objects between two words: bias scores, differences of presence, and exact paired tests, over prompts.

All compare images of one prompt and seed, and take a prompt as the unit: under the null, the indicators of a prompt
could have changed places, all its seeds together. With one seed a prompt the test is McNemar's exact test; with more
it is the same test on the prompt's sums, which stays valid where seeds of one prompt resemble each other.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.object_counts import ObjectTable
from analysis.stats.permutation import NO_IMAGES, flip_p_of_counts
from analysis.stats.proportions import wilson_interval
from analysis.stats.resampling import ONE_PROMPT, checked_level

NEVER = "never detected"
NO_DIFFERENCE = "the same in all indicators at every prompt"


def bias_scores(
    table: ObjectTable, first: str, second: str, *, of: str = "presence", level: float = 0.95
) -> pd.DataFrame:
    r"""Return the bias score :math:`BS = C_2 / (C_1 + C_2)` (Wu et al. 2025, Eq. 5) of every object, with an interval.

    Range 0 to 1; 1/2 is no difference, 1 an object of the second word only. Both words have the same number of
    images here, so Eq. 5's factor is 1; `of` detections C is the paper's (Eq. 3). The interval is Wilson's with the
    effective size :math:`BS (1 - BS) / v` (Korn and Graubard 1998), v the linearised variance over prompts; where one
    word never has the object, the number of prompts that have it. An object detected in three images, all of one word,
    has the score 1 like one detected in three thousand; the interval tells them apart.

    A row an object: ``value``, ``low`` and ``high``, NaN where undefined, for the ``reason``, and ``n``, the prompts at
    which the object was detected for either word.

    A hat at four prompts, at three of them in the second word's image.

    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(4) for word in "fm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(images, [[0], [1]] * 3 + [[1], [0]], indicators="fm", objects=["hat"])
    >>> bias_scores(table, "f", "m").value.tolist()
    [0.75]
    """
    x1, x2 = (getattr(table, of)[:, table.column(name)].astype(np.float64) for name in (first, second))
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
    scores = pd.DataFrame({"value": value, "low": low, "high": high, "n": n, "reason": reason})
    scores.loc[reason != "", ["low", "high"]] = np.nan
    return scores


def presence_differences(table: ObjectTable, first: str, second: str, *, level: float = 0.95) -> pd.DataFrame:
    r"""Return the part of the images with the object, second word less first, with an interval over prompts and a test.

    A row an object, as of `bias_scores`, with a ``p_value`` in the place of ``n``. Range −1 to 1; 0 is no difference.
    The interval is normal, from the variance over prompts after adding two prompts, each with one image that differs,
    one either way (Bonett and Price 2012); it holds for rare objects too. Of 8 prompts of which 3 differ one way and 1
    the other it is 1/4; with the two added (4 − 2) / 10, and the variance (6/10 − 0.2²) / 10.

    The test is the exact sign-flip test of :math:`T = \sum_i (x_{i2} - x_{i1})`, where x counts the images of prompt i
    that have the object (of sums above `EXACT_SUM` from the limiting distribution). A hat at five prompts, each time in
    the second image only: 2 of 32 flips are as far from 0, and p is 1/16.
    """
    x1, x2 = (table.presence[:, table.column(name)] for name in (first, second))
    prompts, images, difference = len(table.seeds), float(table.n_images), x2 - x1
    sizes, total = np.abs(difference), table.by_object(difference)
    steps = range(1, int(sizes.max(initial=0)) + 1)
    counts = [table.by_object((sizes == step).astype(np.int64)) for step in steps]
    counts = np.array(counts, np.int64).reshape(len(steps), len(table.objects))
    seen = table.by_object(x1 + x2)
    reason = reasons(table, counts.any(axis=0), seen)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where((images > 0) & (seen > 0), total / (images or np.nan), np.nan)
        z, per_prompt = float(special.ndtri((1 + checked_level(level)) / 2)), images / max(prompts, 1)
        middle = total / (images + 2 * per_prompt)
        squares = table.by_object(difference.astype(np.float64) ** 2) + 2.0
        variance = (squares / per_prompt**2 / (prompts + 2) - middle**2) / (prompts + 2)
        low, high = (np.clip(middle + sign * z * np.sqrt(variance), -1, 1) for sign in (-1, 1))
    columns = {"value": value, "low": low, "high": high, "p_value": flip_p_of_counts(counts, total)}
    differences = pd.DataFrame(columns | {"reason": reason})
    differences.loc[reason != "", ["low", "high", "p_value"]] = np.nan
    return differences


def reasons(table: ObjectTable, varies: NDArray[np.bool_], seen: NDArray) -> NDArray[np.object_]:
    """Return why each object cannot be tested, an empty text where it can, shape (n_objects,).

    `varies`: whether the indicators differ at a prompt; `seen`: images or detections of all indicators.
    """
    reason = np.where(varies, "", NO_DIFFERENCE).astype(object)
    reason[seen == 0] = NEVER
    if len(table.prompts) < 2:
        reason[:] = ONE_PROMPT if len(table.prompts) else NO_IMAGES
    return reason
