"""Cochran's Q of single objects, the test of all indicators at once that `label_swap_test` is compared with.

The product tests pairs of indicators (`analysis.stats.object_tests.paired_presence_test`) and whole tables
(`analysis.stats.table_tests`). With one seed a prompt this is Cochran's Q; with more it is the same test on the
prompt's sums, which stays valid where seeds of one prompt resemble each other.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations as arrangements
from math import factorial

import numpy as np
from scipy import special

from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import ObjectTests, reasons

EXACT_STEPS = 500_000  # largest work, prompts × arrangements × sums, for an exact p-value


def cochran_q_test(table: ObjectTable, *, of: str = "presence") -> ObjectTests:
    r"""Cochran's Q of every object over all k indicators of the table.

    .. math:: Q = (k - 1) \frac{\sum_g (C_g - \bar C)^2}{\sum_i \sum_g (x_{ig} - \bar x_i)^2}

    with x the images of prompt i that show the object. Exact over all arrangements within prompts where that is at
    most `EXACT_STEPS` of work, else chi-square with k − 1 degrees of freedom.

    Source
    ------
    Cochran 1950; `statsmodels.stats.contingency_tables.cochrans_q` with one seed.

    Examples
    --------
    Two prompts, each time in the third image only: 3 of 9 arrangements put both in one column.

    >>> import pandas as pd
    >>> from analysis.stats.object_counts import object_table
    >>> keys = [(prompt, 0, word) for prompt in range(2) for word in "nfm"]
    >>> images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    >>> table = object_table(images, [[0], [0], [1]] * 2, indicators="nfm", objects=["hat"])
    >>> result = cochran_q_test(table)
    >>> result.statistic.tolist(), result.p_value.round(6).tolist()
    ([4.0], [0.333333])
    """
    values, k = table.values(of), len(table.indicators)
    sums, within = table.by_object(values), k * (values**2).sum(axis=1) - values.sum(axis=1) ** 2
    spread = table.by_object(within)  # k times the sum of squares within prompts
    informative = table.by_object((within > 0).astype(np.int64))
    reason = reasons(table, informative, values)
    between = k * (sums**2).sum(axis=1) - sums.sum(axis=1) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        statistic = (k - 1) * np.where(reason == "", between / spread, np.nan)
    p_value, exact = special.chdtrc(k - 1, statistic), np.zeros(len(reason), bool)
    lowest = values.min(axis=1)
    varied = np.flatnonzero(within > 0)
    shifted = np.sort(values[varied] - lowest[varied, None], axis=1)
    ranges = np.bincount(table.object[varied], weights=shifted[:, -1], minlength=len(reason))
    with np.errstate(over="ignore"):  # of ten indicators and more the work is beyond all bounds
        work = informative * (ranges + 1) ** (k - 1) * float(factorial(min(k, 100)))
    first = np.searchsorted(table.object[varied], np.arange(len(reason) + 1))
    base = np.stack([np.bincount(table.object, lowest, len(reason))] * k, axis=1).astype(np.int64)
    for place in np.flatnonzero((reason == "") & (work <= EXACT_STEPS)):
        rows, counts = np.unique(shifted[first[place] : first[place + 1]], axis=0, return_counts=True)
        counted_rows = tuple((tuple(row), int(count)) for row, count in zip(rows.tolist(), counts))
        moved = sums[place] - base[place]
        p_value[place] = _arrangement_tail(counted_rows, int((moved**2).sum()))
        exact[place] = True
    return ObjectTests(statistic, p_value, exact, informative, reason)


@cache
def _arrangement_tail(prompts: tuple[tuple[tuple[int, ...], int], ...], observed: int) -> float:
    """P(sum of squared column sums >= observed) over all arrangements of each prompt's values."""
    k = len(prompts[0][0])
    total = sum(sum(row) * count for row, count in prompts)
    side = sum(max(row) * count for row, count in prompts) + 1
    grid, reach = np.ones((1,) * (k - 1)), 0
    for row, count in prompts:
        places = sorted(set(arrangements(row)))
        for _ in range(count):
            wider = np.zeros((reach + max(row) + 1,) * (k - 1))
            for place in places:
                wider[tuple(slice(step, step + reach + 1) for step in place[:-1])] += grid / len(places)
            grid, reach = wider, reach + max(row)
    axes = np.meshgrid(*[np.arange(side)] * (k - 1), indexing="ij")
    squares = sum(axis**2 for axis in axes) + (total - sum(axes)) ** 2
    return float(min(grid[squares >= observed].sum(), 1.0))
