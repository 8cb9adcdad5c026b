"""Few prompts that change: effective numbers by hand, the bounded interval by an independent construction."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.equivalence import equivalence_test
from analysis.stats.rare_changes import (
    bounded_ends,
    effective_prompts,
    exponential_weights,
    few_carry,
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


@pytest.mark.parametrize("changed", [1, 2])
def test_an_interval_that_few_prompts_carry_stays_within_their_range(changed):
    """As the z₀ gap of a null run: −0.001 had an interval from −0.310 to 0.002, and no prompt more than 0.025."""
    values = rare(changed)
    found = bootstrap_interval(values, reach=np.full(20, 0.03))
    assert (found.low > -0.03).all() and (found.high < 0.03).all()
    assert ((found.low < found.mean) & (found.mean < found.high)).all()
    assert few_carry(effective_prompts(values), found.n).all()


def test_where_few_prompts_carry_the_difference_the_bounded_interval_decides_about_equivalence():
    """As z₀ of a null run of 200 prompts, whose interval of −0.0009 to 0.0016 did not do for a δ of 0.02."""
    values, reach = rare(2), np.full(20, 0.03)
    found = bootstrap_interval(values, reach=reach, level=0.9)
    assert (np.abs([found.low, found.high]) < 0.02).all()
    assert (equivalence_test(values, 0.02, reach=reach) < 0.05).all()
    barely = equivalence_test(values, 0.003, reach=reach)
    # two of 24 changed: their share may be 0.24 (Clopper and Pearson), a mean change of 0.24 * 0.03
    assert stats.binomtest(2, 24).proportion_ci(0.9).high * 0.03 > 0.003 and (barely > 0.05).all()
