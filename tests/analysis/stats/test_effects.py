"""Effect sizes, equivalence and adjustment against SciPy and statsmodels."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.bootstrap import bootstrap_interval, prompt_means
from analysis.stats.effects import effect_sizes
from analysis.stats.equivalence import equivalence_test
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.rare_changes import effective_prompts, few_carry
from analysis.stats.resampling import resample_counts


def skewed(n=20, c=4, seed=0):
    return np.random.default_rng(seed).exponential(1 + np.arange(c), (n, c)) - 0.5


def drawn_rows(n, resamples, seed):
    """Row numbers of the project's own resamples, shape (resamples, n)."""
    counts = resample_counts(n, resamples, seed)
    return np.array([np.repeat(np.arange(n), row) for row in counts])


def test_the_envelope_is_the_outer_of_student_and_the_studentized_bootstrap_by_a_plain_loop():
    values = skewed(9, 3, seed=4)
    values[3, 1] = np.nan
    assert not few_carry(effective_prompts(values), (~np.isnan(values)).sum(axis=0)).any()
    found = bootstrap_interval(values, resamples=400, seed=5, level=0.9)
    sizes = effect_sizes(values, resamples=400, seed=5, level=0.9)
    for c in range(3):
        x = values[~np.isnan(values[:, c]), c]
        t = []
        for rows in drawn_rows(9, 400, 5):
            own = values[rows, c][~np.isnan(values[rows, c])]
            if len(set(own)) > 1:
                t.append((own.mean() - x.mean()) / stats.sem(own))
        high, low = x.mean() - stats.sem(x) * np.quantile(t, [0.05, 0.95])
        student = stats.ttest_1samp(x, 0).confidence_interval(0.9)
        expected = min(low, student.low), max(high, student.high)
        np.testing.assert_allclose([found.low[c], found.high[c]], expected, rtol=1e-9)
        np.testing.assert_allclose([sizes.mean_low[c], sizes.mean_high[c]], expected, rtol=1e-9)


def test_what_is_ruled_out_is_the_farther_end_of_the_shorter_interval():
    values = skewed(10, 6)
    values[2, 1] = np.nan
    sizes, ninety = effect_sizes(values, seed=3), bootstrap_interval(values, seed=3, level=0.9)
    few = few_carry(sizes.n_effective, sizes.n)  # there a bounded interval takes its place
    assert few.sum() == 1 and np.isnan(sizes.ruled_out[few]).all()
    farther = np.maximum(abs(ninety.low), abs(ninety.high))
    np.testing.assert_allclose(sizes.ruled_out[~few], farther[~few], rtol=1e-12)


def test_effect_sizes_by_scipy_and_a_jackknife():
    values = skewed(14, 3, seed=4)
    result = effect_sizes(values, resamples=500, seed=2)

    def d_z(x, axis=-1):
        return x.mean(axis=axis) / x.std(axis=axis, ddof=1)

    rows = drawn_rows(14, 500, 2)
    for c, column in enumerate(values.T):
        assert result.d_z[c] == pytest.approx(d_z(column))
        known = stats.bootstrap((column,), d_z, n_resamples=2, vectorized=True, rng=0, method="percentile")
        known.bootstrap_distribution = d_z(column[rows])
        scipy = stats.bootstrap(
            (column,), d_z, n_resamples=0, bootstrap_result=known, method="BCa", vectorized=True
        ).confidence_interval
        np.testing.assert_allclose([result.d_z_low[c], result.d_z_high[c]], scipy, rtol=1e-8)
        share = stats.binomtest(int((column > 0).sum()), 14)
        wilson = share.proportion_ci(method="wilson")
        assert result.superiority[c] == share.statistic
        np.testing.assert_allclose([result.superiority_low[c], result.superiority_high[c]], wilson)


def test_equivalence_claims_where_its_interval_lies_within_the_bounds_and_never_below_statsmodels():
    from statsmodels.stats.weightstats import ttost_paired

    values = np.random.default_rng(6).exponential(1, (60, 40)) - np.linspace(0.5, 1.5, 40)
    reach = np.abs(values).max(axis=0)
    p_value, sizes = equivalence_test(values, 0.5, reach=reach), effect_sizes(values, reach=reach)
    within = sizes.ruled_out < 0.5
    assert 0 < within.sum() < 40 and (within == (p_value < 0.05)).mean() > 0.95  # but for interpolation
    known = [ttost_paired(column, np.zeros(60), -0.5, 0.5)[0] for column in values.T]
    few = few_carry(sizes.n_effective, sizes.n)
    assert few.any() and (p_value[~few] >= np.array(known)[~few] - 1e-12).all()
    normal = np.random.default_rng(2).normal(np.linspace(0, 1, 6), 1, (60, 6))
    known = [ttost_paired(column, np.zeros(60), -0.5, 0.5)[0] for column in normal.T]
    found = equivalence_test(normal, 0.5, reach=np.full(6, 3.0), resamples=5000)
    assert (found >= np.array(known) - 0.01).all() and found == pytest.approx(known, abs=0.15)


@pytest.mark.parametrize("delta", [0, np.nan])
def test_equivalence_bounds_are_errors_where_they_mean_nothing(delta):
    with pytest.raises(ValueError, match="delta: expected a number above 0"):
        equivalence_test([[1.0], [2.0]], delta, reach=[3.0])


@pytest.mark.parametrize("shape", [(1, 2), (5, 0)])
def test_nothing_and_one_prompt_are_nan_with_a_reason(shape):
    sizes = effect_sizes(np.ones(shape))
    assert all(sizes.mean_reason) and np.isnan(sizes.d_z_low).all() and np.isnan(sizes.mean_low).all()
    assert np.isnan(equivalence_test(np.ones(shape), 1, reach=np.ones(shape[1]))).all()


def test_constant_columns_have_no_effect_size():
    result = effect_sizes([[2.0, 1.0], [2.0, 2.0]])
    assert np.isnan(result.d_z[0]) and result.mean_reason[0] == "the same value in every prompt"
    assert result.d_z[1] == pytest.approx(1.5 / np.sqrt(0.5))
    assert np.isnan(result.d_z_low[1])  # of two prompts leaving one out leaves no standard deviation
    with pytest.raises(ValueError, match="between 0 and 1, got 95"):
        effect_sizes([[1.0]], level=95)


def test_prompt_means_leave_out_what_is_missing():
    values = np.array([[[1, np.nan], [3, np.nan]], [[2, 4], [np.nan, 6]]])
    np.testing.assert_array_equal(prompt_means(values), [[2, np.nan], [2, 5]])
    with pytest.raises(ValueError, match="n_seeds"):
        prompt_means([[1.0]])


@pytest.mark.parametrize(
    ("method", "name"), [("bh", "fdr_bh"), ("by", "fdr_by"), ("holm", "holm"), ("hommel", "hommel")]
)
def test_adjustment_is_that_of_statsmodels(method, name):
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(0).random(40) ** 3
    p[3] = p[7]
    np.testing.assert_allclose(adjust_p_values(p, method=method), multipletests(p, method=name)[1])
    with_gap = np.insert(p, 5, np.nan)
    adjusted = adjust_p_values(with_gap, method=method)
    assert np.isnan(adjusted[5]) and (np.delete(adjusted, 5) == adjust_p_values(p, method=method)).all()


def test_adjustment_of_nothing_and_of_nonsense():
    assert adjust_p_values([]).shape == (0,)
    with pytest.raises(ValueError, match="from 0 to 1"):
        adjust_p_values([1.5])
    with pytest.raises(ValueError, match="method"):
        adjust_p_values([0.5], method="bonferroni")
