"""Confidence sets of ratios against Fieller's theorem."""

import numpy as np
from scipy import stats

from analysis.stats.ratio_sets import ratio_interval


def drawn(n, columns, mean=5.0, seed=0, ratio=0.4):
    """A skewed total, and effects that are a part of it and noise that all columns share in part."""
    rng = np.random.default_rng(seed)
    totals = mean - 3 + rng.exponential(3, (n, 1)) * np.ones(columns)
    return ratio * totals + rng.normal(0, 1, (n, 1)) + rng.normal(0, 1, (n, columns)), totals


def test_of_many_prompts_it_is_fiellers_or_wider():
    effects, totals = drawn(200, 3, mean=8)
    _, low, high = ratio_interval(effects, totals, resamples=4000)
    n, e, t = 200, effects.mean(axis=0), totals.mean(axis=0)
    square = stats.t.ppf(0.975, n - 1) ** 2 / n
    for column in range(3):
        (see, set_), (_, stt) = np.cov(effects[:, column], totals[:, column])
        a, b, c = (
            t[column] ** 2 - square * stt,
            e[column] * t[column] - square * set_,
            e[column] ** 2 - square * see,
        )
        ends = (b + np.array([-1, 1]) * np.sqrt(b * b - a * c)) / a
        width = ends[1] - ends[0]
        assert low[column] <= ends[0] + 1e-6 and high[column] >= ends[1] - 1e-6
        assert high[column] - low[column] < 1.15 * width
