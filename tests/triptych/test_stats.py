"""The public statistics, compared with SciPy and statsmodels."""

import dataclasses

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from triptych import stats


def test_clusters_are_units_and_columns_are_one_family():
    rng = np.random.default_rng(0)
    clusters, values = np.repeat([5, 2, 9, 4, 1, 7, 8, 3], 3), rng.normal(0.4, 1, (24, 3))
    values[2, 1] = np.nan
    found = stats.paired_test(values, clusters)
    means = np.array([np.nanmean(values[clusters == one], axis=0) for one in np.unique(clusters)])
    for column in range(3):
        known = scipy_stats.permutation_test(
            (means[:, column],), np.mean, permutation_type="samples", vectorized=True
        )
        assert found.p_value[column] == pytest.approx(known.pvalue, abs=1e-12)
    np.testing.assert_allclose(found.mean, means.mean(axis=0), rtol=1e-12)
    ordinary = scipy_stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (found.low <= ordinary.low + 1e-9).all() and (found.high >= ordinary.high - 1e-9).all()
    assert (found.p_adjusted >= found.p_value).all() and found.n.tolist() == [8, 8, 8]
    assert stats.paired_test(means[:, 0]).p_value == stats.paired_test(values[:, 0], clusters).p_value


def test_a_difference_is_absent_only_where_a_larger_one_is_ruled_out():
    rng = np.random.default_rng(1)
    values = rng.normal(0, 0.1, (40, 1)) + np.array([0.0, 0.3])
    found = stats.equivalence(values, 0.2, reach=1.0)
    assert found.p_value[0] < 0.05 < found.p_value[1] and found.delta == 0.2
    np.testing.assert_allclose(found.mean, values.mean(axis=0))


def test_shares_have_wilsons_interval_of_items_or_of_clusters():
    one = stats.share(7, 20, level=0.9)
    assert (one.low, one.high) == pytest.approx(proportion_confint(7, 20, 0.1, method="wilson"))
    alike = stats.share([4, 0, 4, 0, 4], [4] * 5)
    assert alike.value == 0.6 and alike.n == pytest.approx(4)  # as many items as prompts, but one
    assert alike.high - alike.low > one.high - one.low
    assert np.isnan(stats.share(0, 0).value) and np.isnan(stats.share([3], [4]).low)


def test_differences_of_shares_are_newcombes_and_pairs_make_them_narrower():
    found = stats.share_difference(9, 10, 5, 12)
    expected = confint_proportions_2indep(9, 10, 5, 12, method="newcomb")
    assert (found.low, found.high) == pytest.approx(expected)
    hits, more = np.array([0, 4, 1, 3, 0, 4]), np.array([1, 5, 2, 4, 1, 5])
    pairs = (hits, np.full(6, 5), more, np.full(6, 5))
    apart, together = (stats.share_difference(*pairs, paired=paired) for paired in (False, True))
    assert apart.value == together.value and together.high - together.low < (apart.high - apart.low) / 2


def test_results_are_frozen_and_bad_input_is_named():
    found = stats.prompts_needed(0.4, sd_prompt=1.0, sd_seed=1.0, seeds=4, power=0.9)
    assert found.power >= 0.9 and found.d_z == pytest.approx(0.4 / np.sqrt(1.25)) and not found.reason
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.prompts = 3
    for call, text in (
        (lambda: stats.paired_test([1.0, 2.0], [0]), "expected one for each of 2 rows, got 1"),
        (lambda: stats.paired_test([1.0, np.inf]), "infinite"),
        (lambda: stats.share(3, 2), "from 0 to those of the items"),
        (lambda: stats.share([1, 2], [3]), "expected one shape"),
        (lambda: stats.share_difference([1], [2], [1, 1], [2, 2], paired=True), "the same clusters"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
