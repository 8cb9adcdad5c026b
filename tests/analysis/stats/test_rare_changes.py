"""Few prompts that change: effective numbers by hand, the bounded interval by an independent construction."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.effects import effect_sizes
from analysis.stats.equivalence import equivalence_test
from analysis.stats.intervals import bootstrap_interval
from analysis.stats.rare_changes import (
    bounded_ends,
    effective_prompts,
    exponential_weights,
    few_carry,
    unseen_share,
)


def rare(changed, n=24, columns=20, noise=0.001, seed=0):
    """Differences of which the first so many prompts changed by -0.025, and the others by next to nothing."""
    values = noise * np.random.default_rng(seed).standard_normal((n, columns))
    values[:changed] -= 0.025
    return values


def test_effective_prompts_are_n_over_the_kurtosis():
    values = np.random.default_rng(0).standard_t(4, (30, 6))
    expected = 30 / stats.kurtosis(values, fisher=False)
    np.testing.assert_allclose(effective_prompts(values), expected, rtol=1e-9)
    np.testing.assert_allclose(effective_prompts(1e-90 * values + 3e-90), expected, rtol=1e-6)
    holed = np.vstack([values, np.full((2, 6), np.nan)])
    np.testing.assert_allclose(effective_prompts(holed), expected, rtol=1e-9)
    assert np.isnan(effective_prompts(np.ones((5, 1)))[0]) and np.isnan(effective_prompts([[np.nan]])[0])


@pytest.mark.parametrize("n", [2, 24])
def test_unseen_is_the_exact_rule_of_three(n):
    assert unseen_share(n) == pytest.approx(stats.binomtest(0, n).proportion_ci(0.9).high)
    assert unseen_share(n) <= 3 / n


def test_the_bounded_interval_is_gaffkes_from_ordered_uniform_numbers():
    values = np.random.default_rng(1).exponential(0.1, (12, 1)) - 0.1
    weights, reach = exponential_weights(12, 40_000, 0), np.array([0.8])
    low, high = bounded_ends(values, weights, (-reach, reach), 0.9)
    uniform = np.sort(np.random.default_rng(2).random((40_000, 12)), axis=1)
    steps = np.diff(uniform, axis=1, prepend=0.0, append=1.0)
    upper = steps @ np.append(np.sort(values[:, 0]), 0.8)
    lower = steps @ np.append(-np.sort(-values[:, 0])[::-1], -0.8)
    # four Monte Carlo errors of a 5 % quantile of 40,000 draws lie within 0.4 % of the draws
    assert stats.percentileofscore(upper, high[0]) == pytest.approx(95, abs=0.6)
    assert stats.percentileofscore(lower, low[0]) == pytest.approx(5, abs=0.6)


def test_a_prompt_that_is_missing_has_no_weight():
    values, reach = rare(3, columns=2), np.array([0.1, 0.1])
    values[5, 1] = np.nan
    weights = exponential_weights(24, 500, 0)
    low, high = bounded_ends(values, weights, (-reach, reach), 0.95)
    chosen = np.r_[0:5, 6:25]
    alone = bounded_ends(
        np.delete(values, 5, axis=0)[:, 1:], weights[:, chosen], (-reach[1:], reach[1:]), 0.95
    )
    assert (low[1], high[1]) == pytest.approx((alone[0][0], alone[1][0]), rel=1e-12)


@pytest.mark.parametrize("changed", [1, 2])
def test_an_interval_that_few_prompts_carry_stays_within_their_range(changed):
    """As the z₀ gap of a null run: −0.001 had an interval from −0.310 to 0.002, and no prompt more than 0.025."""
    values = rare(changed)
    size = effect_sizes(values, reach=np.full(20, 0.03))
    assert (size.mean_low > -0.03).all() and (size.mean_high < 0.03).all()
    assert ((size.mean_low < size.mean) & (size.mean < size.mean_high)).all()
    assert few_carry(size.n_effective, size.n).all()
    assert np.isnan(effect_sizes(values).ruled_out).all()


def test_where_few_prompts_carry_the_difference_the_bounded_interval_decides_about_equivalence():
    """As z₀ of a null run of 200 prompts, whose interval of −0.0009 to 0.0016 did not do for a δ of 0.02."""
    values, reach = rare(2), np.full(20, 0.03)
    size = effect_sizes(values, reach=reach)
    assert few_carry(size.n_effective, size.n).all() and (size.ruled_out < 0.02).all()
    assert (equivalence_test(values, 0.02, reach=reach) < 0.05).all()
    barely = equivalence_test(values, 0.003, reach=reach)
    # two of 24 changed: their share may be 0.24 (Clopper and Pearson), a mean change of 0.24 * 0.03
    assert stats.binomtest(2, 24).proportion_ci(0.9).high * 0.03 > 0.003 and (barely > 0.05).all()


@pytest.mark.parametrize("changed", [1, 2])
def test_an_interval_without_a_reach_is_finite_where_few_prompts_carry_it(changed):
    values = rare(changed)
    own = bootstrap_interval(values)
    assert (own.high - own.low < 0.06).all()


def test_what_was_not_drawn_is_not_ruled_out():
    values = rare(0)
    size, known = effect_sizes(values), effect_sizes(values, reach=np.full(20, 0.03))
    assert (size.ruled_out < 0.002).all()
    # at most 12 % of the prompts change, by 0.03
    assert (known.ruled_out > 0.03 * unseen_share(24) - 0.0006).all() and (known.ruled_out < 0.005).all()
    np.testing.assert_array_equal(size.mean_low, known.mean_low)
    reach = np.full(20, 0.03)
    assert (equivalence_test(values, 0.003, reach=reach) > 0.05).all()
    assert (equivalence_test(values, 0.005, reach=reach) < 0.05).all()


def test_many_prompts_that_differ_are_left_as_they_were():
    values = np.random.default_rng(3).standard_normal((24, 50)) + 0.5
    size = effect_sizes(values)
    assert few_carry(size.n_effective, size.n).mean() < 0.1
    t = stats.ttest_1samp(values, 0).confidence_interval()
    kept = ~few_carry(size.n_effective, size.n)
    assert (size.mean_low[kept] <= t.low[kept] + 1e-9).all() and np.isfinite(size.ruled_out[kept]).all()
