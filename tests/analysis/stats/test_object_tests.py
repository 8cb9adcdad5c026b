"""Tests and scores of single objects against SciPy, statsmodels, enumeration and tables worked by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.bias_scores import bias_scores, bootstrap_totals, presence_differences
from analysis.stats.intervals import ONE_SIDED, bootstrap_interval
from analysis.stats.object_tests import (
    NEVER,
    NO_DIFFERENCE,
    NO_IMAGES,
    NO_SPREAD,
    ONE_SIDE,
    cochran_mantel_haenszel,
    paired_presence_test,
)
from analysis.stats.resampling import ONE_PROMPT, resample_counts
from tests.analysis.object_data import dense_table, random_counts


def test_one_seed_is_mcnemars_test_of_scipy_and_statsmodels():
    from statsmodels.stats.contingency_tables import mcnemar

    counts = random_counts(40, 1, 2, 8)
    result, mid = (paired_presence_test(dense_table(counts), "n", "f", mid_p=mid) for mid in (False, True))
    for o in range(8):
        first, second = counts[:, 0, 0, o] > 0, counts[:, 0, 1, o] > 0
        cells = [
            [(first & second).sum(), (first & ~second).sum()],
            [(~first & second).sum(), (~first & ~second).sum()],
        ]
        only = (cells[0][1], cells[1][0])
        scipy = stats.binomtest(only[0], sum(only)).pvalue
        assert result.p_value[o] == pytest.approx(scipy) == pytest.approx(mcnemar(cells, exact=True).pvalue)
        assert result.informative[o] == sum(only) and result.exact[o]
        assert mid.p_value[o] == pytest.approx(
            scipy - stats.binom.pmf(only[0], sum(only), 0.5) / (2 if only[0] == only[1] else 1)
        )


@pytest.mark.parametrize("of", ["presence", "detections"])
def test_several_seeds_are_sign_flips_of_prompt_sums(of):
    counts = random_counts(10, 3, 2, 6, seed=2, repeated=of == "detections")
    result = paired_presence_test(dense_table(counts), "n", "f", of=of)
    values = counts if of == "detections" else counts > 0
    for o in range(6):
        sums = values[..., o].sum(axis=1).astype(float)
        scipy = stats.permutation_test(
            (sums[:, 1] - sums[:, 0],), np.sum, permutation_type="samples", n_resamples=np.inf
        )
        assert result.p_value[o] == pytest.approx(min(scipy.pvalue, 1), abs=1e-12)


def test_large_sums_come_from_the_normal_distribution_and_say_so():
    counts = np.zeros((500, 1, 2, 2), int)
    rng = np.random.default_rng(0)
    counts[..., 0] = rng.poisson(20, (500, 1, 2))
    counts[..., 1] = rng.random((500, 1, 2)) < 0.5
    result = paired_presence_test(dense_table(counts), "n", "f", of="detections")
    assert result.exact.tolist() == [False, True]
    difference = counts[:, 0, 1, 0] - counts[:, 0, 0, 0]
    z = difference.sum() / np.sqrt((difference**2).sum())
    assert result.p_value[0] == pytest.approx(2 * stats.norm.sf(abs(z)))


@pytest.mark.parametrize("correction", [False, True])
def test_cmh_is_that_of_statsmodels(correction):
    from statsmodels.stats.contingency_tables import StratifiedTable

    counts = random_counts(15, 6, 2, 5, seed=1)
    result = cochran_mantel_haenszel(dense_table(counts), "n", "f", correction=correction, level=0.9)
    present = (counts > 0).sum(axis=1)
    for o in range(5):
        strata = [[[f, 6 - f], [n, 6 - n]] for n, f in present[..., o]]
        strata = [np.array(own, float) for own in strata if 0 < np.array(own)[:, 0].sum() < 12]
        known = StratifiedTable(strata)
        test = known.test_null_odds(correction=correction)
        assert result.statistic[o] == pytest.approx(test.statistic)
        assert result.p_value[o] == pytest.approx(test.pvalue)
        assert result.odds_ratio[o] == pytest.approx(known.oddsratio_pooled)
        np.testing.assert_allclose(
            [result.low_independent[o], result.high_independent[o]],
            known.oddsratio_pooled_confint(alpha=0.1),
            rtol=1e-8,
        )


def test_cmh_over_prompts_is_the_limit_of_the_paired_test():
    table = dense_table(random_counts(400, 3, 2, 5, seed=8))
    over, paired = cochran_mantel_haenszel(table, "n", "f"), paired_presence_test(table, "n", "f")
    np.testing.assert_allclose(over.p_value_prompts, paired.p_value, atol=0.03)


def test_odds_ratio_with_one_seed_is_that_of_matched_pairs():
    counts = random_counts(60, 1, 2, 5, seed=4)
    result = cochran_mantel_haenszel(dense_table(counts), "n", "f")
    for o in range(5):
        first, second = counts[:, 0, 0, o] > 0, counts[:, 0, 1, o] > 0
        b, c = (second & ~first).sum(), (first & ~second).sum()
        assert result.odds_ratio[o] == pytest.approx(b / c)
        half = stats.norm.ppf(0.975) * np.sqrt(1 / b + 1 / c)
        np.testing.assert_allclose([result.low[o], result.high[o]], b / c * np.exp([-half, half]), rtol=1e-10)


def test_bias_score_is_equation_5_and_its_interval_wilsons():
    counts = np.zeros((30, 1, 2, 2), int)
    counts[:18, 0, 1, 0] = 2  # in 18 images of f, twice in each
    counts[18:24, 0, 0, 0] = 1  # in 6 others of n
    counts[:7, 0, 1, 1] = 1
    table = dense_table(counts)
    result = bias_scores(table, "n", "f")
    assert result.value.tolist() == [18 / 24, 1.0]
    assert bias_scores(table, "n", "f", of="detections").value.tolist() == [36 / 42, 1.0]
    # every prompt has the object once: Wilson's interval with 24 less one for the variance
    low, high = stats.binomtest(7, 7).proportion_ci(method="wilson")
    assert (result.low[1], result.high[1]) == pytest.approx((low, high))
    wilson = stats.binomtest(18, 24).proportion_ci(method="wilson")
    assert (result.low[0], result.high[0]) == pytest.approx(tuple(wilson), abs=0.01)


def test_repeated_detections_widen_the_interval_of_a_score():
    counts = np.zeros((40, 1, 2, 2), int)
    counts[:12, 0, 0], counts[12:40, 0, 1] = 1, 1
    counts[[0, 20], 0, 0, 1] = 12  # one image full of them
    result = bias_scores(dense_table(counts), "n", "f", of="detections")
    width = result.high - result.low
    assert width[1] > 1.5 * width[0]


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_of_scores_and_differences_by_loops(method):
    counts = random_counts(25, 2, 2, 4, seed=6)
    table = dense_table(counts)
    present = (counts > 0).sum(axis=1).astype(float)  # prompts, k, objects
    drawn = resample_counts(25, 600, 8)
    totals = bootstrap_totals(table, ("n", "f"), resamples=600, seed=8)
    np.testing.assert_array_equal(totals.totals, np.einsum("bp,pko->kob", drawn, present))
    scores = bias_scores(table, "n", "f", method=method, resamples=600, seed=8)
    for o in range(4):
        pairs = present[..., o]

        def score(n, f, axis=-1):
            return f.sum(axis=axis) / (n.sum(axis=axis) + f.sum(axis=axis))

        rows = np.array([np.repeat(np.arange(25), row) for row in drawn])
        data = (pairs[:, 0], pairs[:, 1])
        known = stats.bootstrap(data, score, n_resamples=2, paired=True, method="percentile", vectorized=True)
        known.bootstrap_distribution = score(pairs[rows, 0], pairs[rows, 1])
        scipy = stats.bootstrap(
            data, score, n_resamples=0, bootstrap_result=known, paired=True, method=method, vectorized=True
        ).confidence_interval
        # SciPy's acceleration is the jackknife's, ours its linear part
        tolerance = 1e-12 if method == "percentile" else 0.02
        np.testing.assert_allclose([scores.low[o], scores.high[o]], scipy, atol=tolerance)
    # a difference of presence is a mean over prompts
    differences = presence_differences(table, "n", "f", method=method, draws=totals)
    means = (present[:, 1] - present[:, 0]) / 2
    known = bootstrap_interval(means, method=method, resamples=600, seed=8)
    np.testing.assert_allclose(differences.value, known.mean, atol=1e-15)
    np.testing.assert_allclose([differences.low, differences.high], [known.low, known.high], atol=1e-12)


def test_what_is_undefined_is_nan_with_a_reason():
    counts = np.zeros((6, 2, 2, 4), int)
    counts[:, :, :, 1] = 1  # in every image
    counts[:3, :, 1, 2] = 1  # only ever with the second word
    counts[:2, 0, 0, 3] = 1
    counts[3:5, 1, 1, 3] = 1
    table = dense_table(counts)
    tests = paired_presence_test(table, "n", "f")
    assert tests.reason.tolist() == [NEVER, NO_DIFFERENCE, "", ""]
    assert np.isnan(tests.p_value[:2]).all() and tests.p_value[2:].tolist() == [0.25, 1.0]
    strata = cochran_mantel_haenszel(table, "n", "f")
    assert strata.reason.tolist() == [NEVER, NO_DIFFERENCE, ONE_SIDE, ""]
    assert np.isnan(strata.odds_ratio[:3]).all() and np.isnan(strata.statistic[:2]).all()
    assert strata.odds_ratio[3] == 1
    scores = bias_scores(table, "n", "f")
    assert scores.reason.tolist() == [NEVER, NO_DIFFERENCE, "", ""]
    assert scores.value[1:].tolist() == [0.5, 1, 0.5] and np.isnan(scores.value[0])
    assert scores.high[2] == 1 and 0.3 < scores.low[2] < 0.6
    boot = bias_scores(table, "n", "f", method="bca")
    assert boot.reason.tolist() == [NEVER, NO_DIFFERENCE, ONE_SIDED, ""]
    assert np.isnan(boot.low[:3]).all()
    differences = presence_differences(table, "n", "f")
    assert (
        differences.reason.tolist() == [NEVER, NO_DIFFERENCE, "", ""] and np.isnan(differences.low[:2]).all()
    )


def test_an_odds_ratio_that_no_prompt_varies_has_no_interval():
    counts = np.zeros((4, 2, 2, 1), int)
    counts[:, 0, 0], counts[:, 1, 1] = 1, 1
    result = cochran_mantel_haenszel(dense_table(counts), "n", "f")
    assert (result.statistic[0], result.p_value[0], result.odds_ratio[0]) == (0, 1, 1)
    assert np.isnan(result.low[0]) and result.reason[0] == NO_SPREAD


@pytest.mark.parametrize(("n_prompts", "reason"), [(0, NO_IMAGES), (1, ONE_PROMPT)])
def test_no_prompt_and_one_prompt(n_prompts, reason):
    table = dense_table(np.ones((n_prompts, 2, 2, 3), int) * np.array([1, 0, 2]))
    for result in (
        paired_presence_test(table, "n", "f"),
        cochran_mantel_haenszel(table, "n", "f"),
        bias_scores(table, "n", "f"),
        bias_scores(table, "n", "f", method="bca", resamples=20),
        presence_differences(table, "n", "f", method="bca", resamples=20),
        presence_differences(table, "n", "f"),
    ):
        assert result.reason.tolist() == [reason] * 3
        p = result.p_value if hasattr(result, "p_value") else result.low
        assert np.isnan(p).all()


def test_bad_options_are_named():
    table = dense_table(random_counts())
    for call in (
        lambda: bias_scores(table, "n", "f", method="delta"),
        lambda: presence_differences(table, "n", "f", method="wilson"),
        lambda: bias_scores(table, "n", "f", method="bca", draws=bootstrap_totals(table, ("n", "m"))),
        lambda: cochran_mantel_haenszel(table, "n", "f", level=95),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
