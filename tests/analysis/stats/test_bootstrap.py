"""Intervals and equivalence against SciPy, statsmodels and plain loops; no result depends on blocks or threads."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats import resampling
from analysis.stats.bootstrap import (
    FEW_CARRY,
    SKEWED,
    bootstrap_interval,
    bounded_ends,
    effective_prompts,
    equivalence_test,
    few_carry,
    gap_cautions,
    prompt_means,
    range_of,
)
from analysis.stats.permutation import sign_flip_test
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
    if shape[0]:
        assert np.isnan(equivalence_test(np.ones(shape), 1, reach=np.ones(shape[1]))).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bootstrap_interval([1.0, 2.0]), r"shape \(n_prompts, n_columns\), got \(2,\)"),
        (lambda: bootstrap_interval([[1.0], [np.inf]]), "infinite"),
        (lambda: bootstrap_interval([[1.0]], level=95), "between 0 and 1, got 95"),
        (lambda: bootstrap_interval([[1.0]], resamples=0), "at least 1, got 0"),
        (lambda: sign_flip_test([[1.0]], permutations=0), "at least 1, got 0"),
        (lambda: equivalence_test([[1.0], [2.0]], 0.0, reach=[3.0]), "delta: expected a number above 0"),
        (lambda: prompt_means([[1.0]]), "n_seeds"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_the_envelope_is_the_outer_of_student_and_the_studentized_bootstrap_by_a_plain_loop():
    values = np.random.default_rng(4).exponential([1, 2, 3], (9, 3)) - 0.5
    values[3, 1] = np.nan
    assert not few_carry(effective_prompts(values), (~np.isnan(values)).sum(axis=0)).any()
    found = bootstrap_interval(values, resamples=400, seed=5, level=0.9)
    for c in range(3):
        x = values[~np.isnan(values[:, c]), c]
        t = []
        for rows in (np.repeat(np.arange(9), row) for row in resample_counts(9, 400, 5)):
            own = values[rows, c][~np.isnan(values[rows, c])]
            if len(set(own)) > 1:
                t.append((own.mean() - x.mean()) / stats.sem(own))
        high, low = x.mean() - stats.sem(x) * np.quantile(t, [0.05, 0.95])
        student = stats.ttest_1samp(x, 0).confidence_interval(0.9)
        expected = min(low, student.low), max(high, student.high)
        np.testing.assert_allclose([found.low[c], found.high[c]], expected, rtol=1e-9)


def test_equivalence_claims_where_its_interval_lies_within_the_bounds_and_never_below_statsmodels():
    from statsmodels.stats.weightstats import ttost_paired

    values = np.random.default_rng(6).exponential(1, (60, 40)) - np.linspace(0.5, 1.5, 40)
    reach = np.abs(values).max(axis=0)
    p_value, interval = equivalence_test(values, 0.5, reach=reach), bootstrap_interval(values, level=0.9)
    bounded = bounded_ends(values, range_of(values, reach), level=0.9, resamples=2000, seed=0)
    few = few_carry(effective_prompts(values), interval.n)
    ends = np.where(few, np.array(bounded), [interval.low, interval.high])
    within = (np.abs([*ends, *bounded]) < 0.5).all(axis=0)
    assert 0 < within.sum() < 40 and (within == (p_value < 0.05)).mean() > 0.95  # but for interpolation
    known = [ttost_paired(column, np.zeros(60), -0.5, 0.5)[0] for column in values.T]
    assert few.any() and (p_value[~few] >= np.array(known)[~few] - 1e-12).all()
    normal = np.random.default_rng(2).normal(np.linspace(0, 1, 6), 1, (60, 6))
    known = [ttost_paired(column, np.zeros(60), -0.5, 0.5)[0] for column in normal.T]
    found = equivalence_test(normal, 0.5, reach=np.full(6, 3.0), resamples=5000)
    assert (found >= np.array(known) - 0.01).all() and found == pytest.approx(known, abs=0.15)


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
    reach = np.array([0.8])
    low, high = bounded_ends(values, (-reach, reach), level=0.9, resamples=40_000, seed=0)
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


def cautions(values):
    return gap_cautions(values, effective_prompts(values)).tolist()


def test_each_caution_in_its_case():
    normal = stats.norm.ppf((np.arange(24) + 0.5) / 24)[:, None]
    assert cautions(normal) == [""]
    changed = np.zeros((24, 1))
    changed[3] = 1.0
    assert cautions(changed) == [FEW_CARRY]
    skewed = stats.expon.ppf((np.arange(100) + 0.5) / 100)[:, None]
    assert cautions(skewed) == [SKEWED]
    assert cautions(np.full((4, 1), np.nan)) == [""] and cautions(np.empty((3, 0))) == []
