"""Confidence sets of ratios against their own test and Fieller's theorem."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.intervals import bootstrap_interval
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


def test_0_is_outside_where_p_is_below_the_level():
    rng = np.random.default_rng(1)
    totals = rng.normal(0.8, 1, (24, 200))
    effects = rng.normal(0.4, 1, 200) * 0.5 + 0.3 * totals + rng.normal(0, 0.6, totals.shape)
    effects[:, :60] = np.where(rng.random((24, 60)) < 0.12, totals[:, :60], 0.0)  # few prompts carry these
    told = mean_p_values(totals) < 0.05
    found = ratio_sets(effects[:, told], totals[:, told])
    for low, high, p in (
        (found.low, found.high, found.p_value),
        (found.joint_low, found.joint_high, found.p_adjusted),
    ):
        outside = (low > 0) | (high < 0)
        assert not (outside & (p > 0.051)).any() and not (~outside & (p < 0.049)).any()
    assert 0.1 < (found.p_value < 0.05).mean() < 0.9


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


def test_a_column_is_the_same_beside_others_and_missing_prompts_are_left_out():
    effects, totals = drawn(26, 4)
    effects[3, 1] = totals[3, 1] = np.nan
    effects[:, 2] = 0.25 * totals[:, 2]
    found = ratio_sets(effects, totals, resamples=300)
    for column in range(4):
        alone = ratio_sets(effects[:, [column]], totals[:, [column]], resamples=300)
        assert (alone.low[0], alone.high[0], alone.p_value[0]) == (
            found.low[column],
            found.high[column],
            found.p_value[column],
        )
        assert found.joint_low[column] <= alone.low[0]
    assert found.n.tolist() == [26, 25, 26, 26] and np.isnan(found.n_effective[2])
    assert ratio_sets(np.empty((5, 0)), np.empty((5, 0))).ratio.shape == (0,)


@pytest.mark.parametrize("n", [2, 9])
def test_the_same_value_in_every_prompt_has_the_p_value_of_sign_flips(n):
    flips = stats.permutation_test(
        (np.full(n, 0.3),), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    found = mean_p_values(np.column_stack([np.full(n, 0.3), np.zeros(n)]))
    assert found.tolist() == [pytest.approx(flips.pvalue), 1.0] == [2.0 ** (1 - n), 1.0]
