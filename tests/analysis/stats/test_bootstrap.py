"""Intervals and sign flips against SciPy and plain loops; nothing depends on blocks, threads or neighbours."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats import resampling
from analysis.stats.bootstrap import bootstrap_interval, prompt_means
from analysis.stats.equivalence import equivalence_test
from analysis.stats.exact_sums import on_grid
from analysis.stats.permutation import sign_flip_test
from analysis.stats.rare_changes import effective_prompts, few_carry
from analysis.stats.resampling import resample_counts


def columns(n=20, c=6, seed=0, shift=0.4):
    rng = np.random.default_rng(seed)
    return rng.normal(shift * np.arange(c) / c, 1 + np.arange(c), (n, c))


def same(a, b):
    """Whether two results agree to the last bit."""
    a, b = (vars(one) if hasattr(one, "__dict__") else {"": one} for one in (a, b))
    return all(np.array_equal(a[name], b[name], equal_nan=np.asarray(a[name]).dtype != object) for name in a)


def everything(values, resamples=600):
    options = {"resamples": resamples}
    return (
        bootstrap_interval(values, **options),
        sign_flip_test(values, permutations=resamples),
        bootstrap_interval(values, reach=np.full(values.shape[1], 1e3), level=0.9, **options),
        equivalence_test(values, 0.5, reach=np.full(values.shape[1], 1e3), **options),
    )


def test_results_do_not_depend_on_blocks_neighbours_or_working_memory(monkeypatch):
    values = columns(40, 37, shift=1)
    values[1, 5] = np.nan
    whole = everything(values)
    alone = bootstrap_interval(values[:, 5:6], resamples=600)
    assert (alone.low[0], alone.high[0]) == (whole[0].low[5], whole[0].high[5])
    monkeypatch.setattr(resampling, "CHUNK_BYTES", 1000)
    assert all(same(one, two) for one, two in zip(everything(values), whole))


def test_results_do_not_depend_on_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    values = columns(300, 200)  # large enough for the BLAS to share it out
    results = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            results.append(everything(values))
    assert all(same(one, two) for one, two in zip(*results))


def test_what_is_undefined_is_nan_with_a_reason():
    nan = np.nan
    values = np.array([[1, nan, 2, 0, nan, 1], [2, nan, 2, 0, 3, 2], [4, nan, 2, 0, nan, nan]], float)
    intervals, flips = bootstrap_interval(values), sign_flip_test(values)
    reasons = ["", "no value", *["the same value in every prompt"] * 2, "one prompt only", ""]
    assert intervals.reason.tolist() == reasons
    assert flips.p_value[2] == 2 / 2**3  # 2 in every prompt: an exact test
    for numbers in (intervals.low, intervals.high):
        assert np.array_equal(np.isnan(numbers), intervals.reason != "")
    for numbers in (flips.p_value, flips.p_adjusted):
        assert np.isnan(numbers).tolist() == [False, True, False, True, True, False]
    np.testing.assert_array_equal(intervals.mean, [7 / 3, nan, 2, 0, 3, 1.5])
    assert intervals.n.tolist() == [3, 0, 3, 3, 1, 2]
    # a column of nothing takes no part in the family
    assert flips.p_adjusted[0] == sign_flip_test(values[:, [0, 5]]).p_adjusted[0]


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (4, 0)])
def test_empty_and_single_inputs(shape):
    intervals, flips = bootstrap_interval(np.ones(shape)), sign_flip_test(np.ones(shape))
    assert intervals.mean.shape == flips.p_value.shape == (shape[1],)
    assert np.isnan(intervals.low).all() and np.isnan(flips.p_adjusted).all() and all(intervals.reason)


def test_sums_on_the_grid_are_exact_and_near():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 3)) * 10.0 ** np.array([-8, 0, 8])
    whole, exponent = on_grid(values)
    assert (whole == np.rint(whole)).all() and np.abs(whole).sum(axis=0).max() <= 2**53
    assert (np.abs(np.ldexp(whole, exponent) - values) <= np.abs(values).max(axis=0) * 2**-42).all()
    exact = [int(sum(int(v) for v in column)) for column in whole.T]
    assert whole.sum(axis=0).astype(int).tolist() == exact


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bootstrap_interval([1.0, 2.0]), r"shape \(n_prompts, n_columns\), got \(2,\)"),
        (lambda: bootstrap_interval([[1.0], [np.inf]]), "infinite"),
        (lambda: bootstrap_interval([[1.0]], level=95), "between 0 and 1, got 95"),
        (lambda: bootstrap_interval([[1.0]], resamples=0), "at least 1, got 0"),
        (lambda: sign_flip_test([[1.0]], permutations=0), "at least 1, got 0"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("probability", [0.0, 0.7, 1.0])
def test_quantiles_are_those_of_numpy(probability):
    values = np.random.default_rng(4).standard_normal((41, 30)).round(1)  # with ties
    (alone,), (among, _) = (
        resampling.quantiles(values, probability),
        resampling.quantiles(values, probability, 0.5),
    )
    np.testing.assert_array_equal(alone, among)
    np.testing.assert_allclose(alone, np.quantile(values, probability, axis=0), atol=1e-15)
    values[values > 0.5] = np.nan
    (alone,) = resampling.quantiles(values, probability)
    np.testing.assert_allclose(alone, np.nanquantile(values, probability, axis=0), atol=1e-15)


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


def test_prompt_means_leave_out_what_is_missing():
    values = np.array([[[1, np.nan], [3, np.nan]], [[2, 4], [np.nan, 6]]])
    np.testing.assert_array_equal(prompt_means(values), [[2, np.nan], [2, 5]])
    with pytest.raises(ValueError, match="n_seeds"):
        prompt_means([[1.0]])
