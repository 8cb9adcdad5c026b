"""Shares of a total effect against SciPy, Fieller's theorem and enumerations by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.shares import (
    ALIKE,
    NO_TOTAL,
    beyond_floor,
    largest_floor,
    mean_effects,
    shares,
)


def generated(n, columns, share=0.4, seed=0, mean=5.0):
    """Effects and totals: a skewed total effect, and a patch that does a share of it and some noise."""
    rng = np.random.default_rng(seed)
    totals = mean - 3 + rng.exponential(3, n)
    return share * totals[:, None] + rng.normal(0, 1, (n, columns)), totals


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
    effects, totals = generated(30, 2)
    effects[3, 0] = totals[5] = np.nan
    found = shares(effects, totals, resamples=100)
    assert found.n.tolist() == [28, 29]
    for column in range(2):
        both = ~(np.isnan(effects[:, column]) | np.isnan(totals))
        ratio = effects[both, column].sum() / totals[both].sum()
        assert found.share[column] == pytest.approx(ratio, rel=1e-12)
        assert found.effect[column] == pytest.approx(effects[both, column].mean(), rel=1e-12)


def test_the_interval_agrees_with_fieller_and_with_scipys_bootstrap_of_the_ratio():
    effects, totals = generated(60, 1, seed=60)
    found = shares(effects, totals, resamples=4000)
    ends, width = np.array([found.low[0], found.high[0]]), found.high[0] - found.low[0]
    student = fieller(effects[:, 0], totals)
    assert ends[0] <= student[0] + 1e-9 and ends[1] >= student[1] - 1e-9
    np.testing.assert_allclose(ends, student, atol=0.12 * width)
    by_scipy = stats.bootstrap(
        (effects[:, 0], totals),
        lambda e, t, axis: e.sum(axis=axis) / t.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=4000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    np.testing.assert_allclose(ends, by_scipy, atol=0.15 * width)


def test_intervals_and_p_values_are_one_inference_and_hold_for_all_columns_at_once():
    effects, totals = generated(24, 6, share=0.25, seed=1)
    found = shares(effects, totals)
    for column, end in ((0, "low"), (3, "high")):
        value = getattr(found, end)[column]
        p = []
        for step in (-1e-6, 1e-6):  # the test of a ratio is that of 0 for what the ratio leaves
            moved = effects.copy()
            moved[:, column] -= (value + step * (1 if end == "high" else -1)) * totals
            others = np.delete(moved, column, axis=1)
            p.append(shares(np.column_stack([moved[:, column], others]), totals).p_adjusted[0])
        assert 0.04 < p[1] <= p[0] < 0.1  # the larger of the tests of effect and share
    told = found.p_adjusted < 0.05
    assert told.any() and (found.low[told] > 0).all() and (found.effect_low[told] > 0).all()
    alone = shares(effects[:, :1], totals)
    assert found.low[0] < alone.low[0] and found.high[0] > alone.high[0]
    # against Student's statistics of resampled prompts, of the effects, by hand
    rng, centred = np.random.default_rng(5), effects - effects.mean(axis=0)
    drawn = centred[rng.integers(0, 24, (20_000, 24))]
    most = np.abs(drawn.mean(axis=1) / stats.sem(drawn, axis=1)).max(axis=1)
    half = np.quantile(most, 0.95) * stats.sem(effects, axis=0)
    np.testing.assert_allclose(found.effect_high - found.effect, half, rtol=0.08)


def test_an_end_is_infinite_where_the_total_effect_is_only_just_told_from_0():
    rng = np.random.default_rng(2)
    totals = rng.normal(0.45, 1, 24)
    found = shares(0.5 * totals[:, None] + rng.normal(0.3, 0.5, (24, 8)), totals)
    assert np.isinf(found.high).any() and not np.isnan(found.low).any()
    assert all("only just told" in reason for reason in found.reason[np.isinf(found.high)])


def test_beside_a_share_of_0_in_every_prompt_stands_the_rule_of_three():
    """In none of 24 prompts, each of which can move by as much: Clopper and Pearson's upper end, two-sided."""
    found = shares(np.zeros((24, 1)), np.ones(24), resamples=20_000)
    assert found.share[0] == 0 and found.reason[0] == ALIKE and found.p_adjusted[0] == 1
    assert found.high[0] == pytest.approx(stats.beta.ppf(0.975, 1, 24), abs=0.004)
    assert found.low[0] == pytest.approx(-found.high[0], abs=0.01)


def test_a_total_effect_near_0_gives_no_share_by_a_test_no_shorter_than_students():
    rng = np.random.default_rng(3)
    totals = rng.normal(0.4, 1, (24, 60))
    by_student = stats.ttest_1samp(totals, 0).pvalue < 0.05
    found = [shares(0.5 * one[:, None] + 0.1 * rng.normal(size=(24, 1)), one) for one in totals.T]
    told = np.array([not np.isnan(one.share[0]) for one in found])
    assert 0.2 < told.mean() < 0.8 and not (told & ~by_student).any()
    assert (by_student & ~told).mean() < 0.1
    assert {one.reason[0] for one, known in zip(found, told) if not known} == {NO_TOTAL}
    p_values = [mean_effects(one[:, None]).p_adjusted[0] < 0.05 for one in totals.T]
    assert told.tolist() == p_values


def test_beyond_the_floor_is_the_share_of_the_margin_and_its_test():
    rng = np.random.default_rng(4)
    totals = 5 + rng.normal(0, 1, 24)
    effects, floor = rng.normal(-2, 1, (24, 3)), rng.normal(0.3, 0.5, (24, 3))
    found = beyond_floor(effects, totals, floor)
    margin = effects * np.sign(effects.mean(axis=0)) - floor * np.sign(floor.mean(axis=0))
    alone = shares(margin, totals)
    np.testing.assert_allclose(found.share, margin.sum(axis=0) / totals.sum())
    np.testing.assert_allclose(found.low, alone.low)
    # without a total effect it is the test of the margins themselves, at least Student's
    nothing = beyond_floor(effects, totals - totals.mean(), floor)
    assert np.isnan(nothing.share).all() and np.isnan(nothing.low).all()
    assert (nothing.p_adjusted >= 0.999999 * stats.ttest_1samp(margin, 0).pvalue).all()
    assert (nothing.p_adjusted < 0.05).all()


def test_the_floor_is_that_of_the_synonym_that_moves_most():
    floors = np.array([[[1.0, -1.0], [1.0, -1.0]], [[0.5, -5.0], [0.5, -5.0]], [[np.nan, 0], [np.nan, 0]]])
    chosen, which = largest_floor(floors)
    assert which.tolist() == [0, 1] and chosen.tolist() == [[1.0, -5.0], [1.0, -5.0]]


def test_shapes_that_do_not_go_together_are_refused():
    assert shares(np.ones((6, 2)), np.ones(6), resamples=10).share.tolist() == [1, 1]
    with pytest.raises(ValueError, match="totals: expected shape"):
        shares(np.ones((6, 2)), np.ones(5))
