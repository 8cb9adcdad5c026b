"""Shares of a total effect against SciPy, Fieller's theorem and enumerations by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.shares import ALIKE, NO_TOTAL, beyond_floor, largest_floor, no_total, shares


def drawn(n, columns, share=0.4, seed=0, mean=5.0):
    """Effects and totals: a skewed total effect, and a patch that does a share of it and some noise."""
    rng = np.random.default_rng(seed)
    totals = mean - 3 + rng.exponential(3, (n, columns))
    return share * totals + rng.normal(0, 1, (n, columns)), totals


def fieller(effects, totals, level=0.95):
    """The interval of a ratio of means of normal variables: roots of a quadratic equation (Fieller 1954)."""
    n = len(effects)
    t = stats.t.ppf((1 + level) / 2, n - 1)
    (vee, vet), (_, vtt) = np.cov(effects, totals) / n
    a = totals.mean() ** 2 - t**2 * vtt
    b = effects.mean() * totals.mean() - t**2 * vet
    c = effects.mean() ** 2 - t**2 * vee
    return np.sort(np.roots([a, -2 * b, c]))


def test_a_share_is_the_ratio_of_sums_over_prompts_that_have_both():
    effects, totals = drawn(30, 2)
    effects[3, 0] = totals[5, 0] = np.nan
    found = shares(effects, totals, resamples=100)
    both = ~(np.isnan(effects[:, 0]) | np.isnan(totals[:, 0]))
    assert found.n.tolist() == [28, 30]
    assert found.share[0] == pytest.approx(effects[both, 0].sum() / totals[both, 0].sum(), rel=1e-12)
    assert found.share[1] == pytest.approx(effects[:, 1].sum() / totals[:, 1].sum(), rel=1e-12)


def test_the_interval_agrees_with_fieller_and_with_scipys_bootstrap_of_the_ratio():
    effects, totals = drawn(60, 1, seed=60)
    found = shares(effects, totals, resamples=4000)
    ends, width = np.array([found.low[0], found.high[0]]), found.high[0] - found.low[0]
    np.testing.assert_allclose(ends, fieller(effects[:, 0], totals[:, 0]), atol=0.12 * width)
    by_scipy = stats.bootstrap(
        (effects[:, 0], totals[:, 0]),
        lambda e, t, axis: e.sum(axis=axis) / t.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=4000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    np.testing.assert_allclose(ends, by_scipy, atol=0.12 * width)


def test_beside_a_share_of_0_in_every_prompt_stands_the_rule_of_three():
    """In none of 24 prompts, each of which can move by as much: Clopper and Pearson's upper end, two-sided."""
    found = shares(np.zeros((24, 1)), np.ones(24), resamples=20_000)
    assert found.share[0] == 0 and found.reason[0] == ALIKE and found.p_value[0] == 1
    assert found.high[0] == pytest.approx(stats.beta.ppf(0.975, 1, 24), abs=0.004)
    assert found.low[0] == pytest.approx(-found.high[0], abs=0.01)


def test_a_total_effect_near_0_gives_no_share_by_a_test_no_shorter_than_students():
    rng = np.random.default_rng(3)
    totals = rng.normal(0.4, 1, (24, 300))
    by_student = stats.ttest_1samp(totals, 0).pvalue < 0.05
    told = no_total(totals) == ""
    assert 0.2 < told.mean() < 0.8 and not (told & ~by_student).any()
    assert (by_student & ~told).mean() < 0.1
    found = shares(0.5 * totals + 0.1 * rng.normal(size=totals.shape), totals, resamples=2000)
    assert (np.isnan(found.share) == ~told).all() and set(found.reason[~told]) == {NO_TOTAL}


def test_beyond_the_floor_is_the_share_of_the_margin_and_its_test():
    rng = np.random.default_rng(4)
    totals = 5 + rng.normal(0, 1, 24)
    effects, floor = rng.normal(-2, 1, (24, 3)), rng.normal(0.3, 0.5, (24, 3))
    found = beyond_floor(effects, totals, floor)
    margin = effects * np.sign(effects.mean(axis=0)) - floor * np.sign(floor.mean(axis=0))
    alone = shares(margin, totals)
    np.testing.assert_allclose(found.ratio, margin.sum(axis=0) / totals.sum())
    np.testing.assert_allclose(found.joint_low, alone.joint_low)
    np.testing.assert_allclose(found.p_value, alone.p_value)
    # without a total effect it is the test of the margins themselves, at least Student's
    nothing = beyond_floor(effects, totals - totals.mean(), floor)
    assert np.isnan(nothing.ratio).all() and np.isnan(nothing.joint_low).all()
    assert (nothing.p_value >= 0.999999 * stats.ttest_1samp(margin, 0).pvalue).all() and (
        nothing.p_adjusted < 0.05
    ).all()


def test_the_floor_is_that_of_the_synonym_that_moves_most():
    floors = np.array([[[1.0, -1.0], [1.0, -1.0]], [[0.5, -5.0], [0.5, -5.0]], [[np.nan, 0], [np.nan, 0]]])
    chosen, which = largest_floor(floors)
    assert which.tolist() == [0, 1] and chosen.tolist() == [[1.0, -5.0], [1.0, -5.0]]


@pytest.mark.parametrize("totals", [np.ones((5, 1)), np.ones(6), np.ones((6, 3))])
def test_shapes_that_do_not_go_together_are_refused(totals):
    if totals.shape == (6,):
        assert shares(np.ones((6, 2)), totals, resamples=10).share.tolist() == [1, 1]
        return
    with pytest.raises(ValueError, match="totals: expected shape"):
        shares(np.ones((6, 2)), totals)
    with pytest.raises(ValueError, match="floor: expected the shape"):
        beyond_floor(np.ones((6, 2)), np.ones(6), np.ones((6, 1)))
