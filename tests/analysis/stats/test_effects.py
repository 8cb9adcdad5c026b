"""Intervals, effect sizes, equivalence and adjustment against SciPy and statsmodels."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats import resampling
from analysis.stats.effects import (
    TWO_PROMPTS,
    effect_sizes,
    hedges_factor,
    prompt_means,
    student_interval,
)
from analysis.stats.equivalence import EQUIVALENCE_METHODS, equivalence_test
from analysis.stats.intervals import METHODS, ONE_SIDED, bootstrap_interval
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.rare_changes import effective_prompts, few_carry
from analysis.stats.resampling import CONSTANT, resample_counts
from analysis.stats.sign_flips import sign_flip_test


def skewed(n=20, c=4, seed=0):
    return np.random.default_rng(seed).exponential(1 + np.arange(c), (n, c)) - 0.5


def drawn_rows(n, resamples, seed):
    """Row numbers of the project's own resamples, shape (resamples, n)."""
    counts = resample_counts(n, resamples, seed)
    return np.array([np.repeat(np.arange(n), row) for row in counts])


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n", [5, 30])
def test_bca_is_that_of_scipy_on_the_same_resamples(n, level):
    values = skewed(n)
    result = bootstrap_interval(values, method="bca", resamples=700, seed=3, level=level)
    rows = drawn_rows(n, 700, 3)
    for c, column in enumerate(values.T):
        known = stats.bootstrap(
            (column,), np.mean, n_resamples=2, vectorized=True, rng=0, method="percentile"
        )
        known.bootstrap_distribution = column[rows].mean(axis=1)
        scipy = stats.bootstrap(
            (column,),
            np.mean,
            n_resamples=0,
            bootstrap_result=known,
            method="BCa",
            confidence_level=level,
            vectorized=True,
        ).confidence_interval
        np.testing.assert_allclose([result.low[c], result.high[c]], scipy, rtol=1e-9)


def test_studentized_by_a_plain_loop_over_the_same_resamples():
    values = skewed(9, 2)
    values[3, 1] = np.nan
    result = bootstrap_interval(values, method="studentized", resamples=400, seed=5, level=0.9)
    for c in range(2):
        x = values[:, c]
        t = []
        for rows in drawn_rows(9, 400, 5):
            own = x[rows][~np.isnan(x[rows])]
            if len(set(own)) > 1:
                t.append((own.mean() - np.nanmean(x)) / stats.sem(own))
        error = stats.sem(x[~np.isnan(x)])
        high, low = np.nanmean(x) - error * np.quantile(t, [0.05, 0.95])
        np.testing.assert_allclose([result.low[c], result.high[c]], [low, high], rtol=1e-9)
        assert result.low[c] < np.nanmean(x) < result.high[c]


@pytest.mark.parametrize("method", METHODS)
def test_no_method_depends_on_blocks_neighbours_or_missing_rows(method, monkeypatch):
    values = skewed(12, 11)
    values[2, 4] = np.nan
    whole = bootstrap_interval(values, method=method)
    monkeypatch.setattr(resampling, "CHUNK_BYTES", 3000)
    for chunk in (None, 1, 3):
        parts = bootstrap_interval(values, method=method, chunk=chunk)
        assert parts.low.tobytes() == whole.low.tobytes() and parts.high.tobytes() == whole.high.tobytes()
    alone = bootstrap_interval(values[:, 4:5], method=method)
    assert alone.low[0] == whole.low[4] and alone.high[0] == whole.high[4]


def test_bca_says_where_all_resamples_lie_on_one_side():
    # one resample cannot lie on both sides of the mean
    result = bootstrap_interval([[0.0], [1.0], [5.0]], method="bca", resamples=1)
    assert np.isnan(result.low[0]) and result.reason[0] == ONE_SIDED


def test_expanded_probabilities_give_students_interval_of_a_normal_bootstrap():
    """Were the resampled means exactly normal, with variance s² (n − 1) / n², the interval would be Student's."""
    n, values = 24, np.random.default_rng(0).normal(size=(24, 3))
    wide = bootstrap_interval(values, method="expanded", resamples=40000, seed=1)
    student = student_interval(values)
    np.testing.assert_allclose([wide.low, wide.high], [student.low, student.high], atol=0.04)
    short = bootstrap_interval(values, resamples=40000, seed=1)
    assert (wide.low < short.low).all() and (wide.high > short.high).all() and n == wide.n[0]


def test_the_envelope_is_the_outer_one_at_each_end_and_the_one_of_effect_sizes():
    values = skewed(10, 6)
    values[2, 1] = np.nan
    t, studentized = student_interval(values), bootstrap_interval(values, method="studentized", seed=3)
    found = bootstrap_interval(values, method="envelope", seed=3)
    few = few_carry(effective_prompts(values), found.n)  # there a bounded interval takes its place
    assert few.sum() == 1
    np.testing.assert_allclose(found.low[~few], np.minimum(t.low, studentized.low)[~few], rtol=1e-12)
    np.testing.assert_allclose(found.high[~few], np.maximum(t.high, studentized.high)[~few], rtol=1e-12)
    assert (found.low < studentized.low).any() and (found.high > t.high).any()
    sizes = effect_sizes(values, seed=3)
    np.testing.assert_array_equal(few, few_carry(sizes.n_effective, sizes.n))
    assert np.isnan(sizes.ruled_out[few]).all()
    np.testing.assert_allclose([sizes.mean_low, sizes.mean_high], [found.low, found.high], rtol=1e-12)
    ninety = bootstrap_interval(values, method="envelope", seed=3, level=0.9)
    farther = np.maximum(abs(ninety.low), abs(ninety.high))
    np.testing.assert_allclose(sizes.ruled_out[~few], farther[~few], rtol=1e-12)


def test_equivalence_by_the_envelope_claims_where_its_interval_lies_within_the_bounds():
    values = np.random.default_rng(6).exponential(1, (60, 40)) - np.linspace(0.5, 1.5, 40)
    result = equivalence_test(values, 0.5, method="envelope")
    within = (result.low > -0.5) & (result.high < 0.5)
    assert (
        0 < within.sum() < 40 and (within == (result.p_value < 0.05)).mean() > 0.95
    )  # but for interpolation
    sizes = effect_sizes(values)
    np.testing.assert_allclose(sizes.ruled_out, result.smallest, rtol=1e-12)
    others = [equivalence_test(values, 0.5, method=method).p_value for method in ("t", "bootstrap")]
    few = few_carry(sizes.n_effective, sizes.n)
    assert few.any() and np.isnan(result.p_value[few]).all()
    np.testing.assert_array_equal(result.p_value[~few], np.maximum(*others)[~few])


def test_student_interval_is_that_of_scipy():
    values = skewed(15)
    values[3, 2] = np.nan
    result = student_interval(values, level=0.9)
    for c, column in enumerate(values.T):
        scipy = stats.ttest_1samp(column[~np.isnan(column)], 0).confidence_interval(0.9)
        np.testing.assert_allclose([result.low[c], result.high[c]], scipy, rtol=1e-12)


def test_flips_of_one_value_everywhere_are_those_of_scipy():
    values = np.full((8, 3), [0.1, -3.0, 0.0])
    values[0, 1] = np.nan
    result = sign_flip_test(values)
    for c in (0, 1):
        column = values[~np.isnan(values[:, c]), c]
        exact = stats.permutation_test((column,), np.mean, permutation_type="samples", n_resamples=np.inf)
        assert result.p_value[c] == pytest.approx(exact.pvalue, abs=1e-12)
    assert np.isnan(result.p_value[2]) and list(result.reason) == ["", "", CONSTANT]


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_one_sided_flips_are_those_of_scipy(alternative):
    values = skewed(8) - 0.6
    result = sign_flip_test(values, alternative=alternative)
    for c, column in enumerate(values.T):
        scipy = stats.permutation_test(
            (column,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative=alternative
        )
        assert result.p_value[c] == pytest.approx(scipy.pvalue, abs=1e-12)
    assert (result.p_adjusted >= result.p_value).all()


def test_effect_sizes_by_scipy_and_a_jackknife():
    values = skewed(14, 3, seed=4)
    result = effect_sizes(values, resamples=500, seed=2)

    def d_z(x, axis=-1):
        return x.mean(axis=axis) / x.std(axis=axis, ddof=1)

    rows = drawn_rows(14, 500, 2)
    for c, column in enumerate(values.T):
        assert result.d_z[c] == pytest.approx(d_z(column))
        assert result.d_z[c] == pytest.approx(stats.ttest_1samp(column, 0).statistic / np.sqrt(14))
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
    np.testing.assert_allclose(result.g, result.d_z * (1 - 3 / (4 * 13 - 1)), rtol=2e-3)


def test_hedges_factor_is_near_its_common_approximation():
    n = np.array([5, 20, 1000])
    np.testing.assert_allclose(hedges_factor(n), 1 - 3 / (4 * (n - 1) - 1), rtol=5e-3)


def test_equivalence_by_t_is_that_of_statsmodels():
    from statsmodels.stats.weightstats import ttost_paired

    values = np.random.default_rng(1).normal([0, 0.3, 1.2], 1, (25, 3))
    result = equivalence_test(values, 0.5)
    for c in range(3):
        assert result.p_value[c] == pytest.approx(ttost_paired(values[:, c], np.zeros(25), -0.5, 0.5)[0])
    # "equivalent at alpha" and "the interval lies within the bounds" are one claim
    within = (result.low > -0.5) & (result.high < 0.5)
    assert (within == (result.p_value < 0.05)).all() and (within == (result.smallest < 0.5)).all()


@pytest.mark.parametrize("method", ["sign_flip", "bootstrap"])
def test_equivalence_by_resampling_agrees_with_t_where_data_are_normal(method):
    values = np.random.default_rng(2).normal(np.linspace(0, 1, 6), 1, (60, 6))
    t = equivalence_test(values, 0.5)
    other = equivalence_test(values, 0.5, method=method, resamples=10000, seed=1)
    assert other.p_value == pytest.approx(t.p_value, abs=0.03)
    assert other.smallest == pytest.approx(t.smallest, abs=0.05)


def test_equivalence_bounds_are_errors_where_they_mean_nothing():
    for delta in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="delta: expected a number above 0"):
            equivalence_test([[1.0], [2.0]], delta)
    with pytest.raises(ValueError, match="method: expected one of"):
        equivalence_test([[1.0], [2.0]], 1, method="z")


@pytest.mark.parametrize("shape", [(0, 2), (1, 2), (5, 0)])
def test_nothing_and_one_prompt_are_nan_with_a_reason(shape):
    for result in (
        student_interval(np.ones(shape)),
        effect_sizes(np.ones(shape)),
        equivalence_test(np.ones(shape), 1),
        equivalence_test(np.ones(shape), 1, method="bootstrap"),
        equivalence_test(np.ones(shape), 1, method="sign_flip"),
    ):
        assert all(result.reason) and len(result.reason) == shape[1]
        numbers = result.d_z_low if hasattr(result, "d_z_low") else result.low
        assert np.isnan(numbers).all()


def test_constant_columns_have_no_effect_size():
    result = effect_sizes([[2.0, 1.0], [2.0, 2.0]])
    assert np.isnan(result.d_z[0]) and result.reason[0] == "the same value in every prompt"
    assert result.d_z[1] == pytest.approx(1.5 / np.sqrt(0.5))
    assert np.isnan(result.d_z_low[1]) and result.reason[1] == TWO_PROMPTS
    for method in EQUIVALENCE_METHODS:
        assert np.isnan(equivalence_test([[2.0], [2.0]], 1, method=method).p_value[0])


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
    assert np.isnan(adjust_p_values([np.nan])).all()
    with pytest.raises(ValueError, match="from 0 to 1"):
        adjust_p_values([1.5])
    with pytest.raises(ValueError, match="method"):
        adjust_p_values([0.5], method="bonferroni")
