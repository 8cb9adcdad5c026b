"""Confidence sets of ratios against their own test and Fieller's theorem."""

import numpy as np
from scipy import stats

from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.ratio_sets import mean_p_values, ratio_sets


def drawn(n, columns, mean=5.0, seed=0, ratio=0.4):
    """A skewed total, and effects that are a part of it and noise that all columns share in part."""
    rng = np.random.default_rng(seed)
    totals = mean - 3 + rng.exponential(3, (n, 1)) * np.ones(columns)
    return ratio * totals + rng.normal(0, 1, (n, 1)) + rng.normal(0, 1, (n, columns)), totals


def test_an_end_is_the_ratio_whose_p_value_is_the_level():
    """The test of a ratio is that of 0 for what the ratio leaves: the interval and p are one inference."""
    effects, totals = drawn(24, 5)
    found = ratio_sets(effects, totals)
    for ends, name in ((("low", "high"), "p_value"), (("joint_low", "joint_high"), "p_adjusted")):
        for end, outwards in zip(ends, (-1e-6, 1e-6)):
            for column, value in enumerate(getattr(found, end)):
                p = {}
                for step in (
                    -outwards,
                    outwards,
                ):  # tails are counted over 2,000 draws: p passes the level by a step
                    moved = effects.copy()
                    moved[:, column] -= (value + step) * totals[:, column]
                    again = ratio_sets(moved, totals)
                    p[step == outwards] = getattr(again, name)[column]
                assert p[True] <= 0.05 < p[False] < p[True] + 0.04


def test_of_many_prompts_it_is_fiellers_or_wider():
    effects, totals = drawn(200, 3, mean=8)
    found = ratio_sets(effects, totals, resamples=4000)
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
        assert found.low[column] <= ends[0] + 1e-6 and found.high[column] >= ends[1] - 1e-6
        assert found.high[column] - found.low[column] < 1.15 * width


def test_the_p_value_of_a_mean_is_students_or_larger():
    rng = np.random.default_rng(8)
    values = np.column_stack([rng.normal(0.5, 1, (24, 40)), rng.exponential(1, (24, 40)) - 0.6])
    found = mean_p_values(values)
    student = stats.ttest_1samp(values, 0).pvalue
    assert (found >= student - 1e-12).all() and (found[:40] - student[:40]).mean() < 0.02
    reach = np.abs(values).max(axis=0)
    alone = ratio_sets(values, np.ones_like(values), reach=reach).p_value
    np.testing.assert_allclose(mean_p_values(values, reach=reach), alone)
    ends = bootstrap_interval(values)
    outside = (ends.low > 0) | (ends.high < 0)
    assert not (outside & (found > 0.051)).any() and not (~outside & (found < 0.049)).any()
    assert np.isnan(mean_p_values([[1.0]])[0])
