"""Tests and scores of single objects against SciPy, statsmodels and tables worked by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.object_tests import NEVER, NO_DIFFERENCE, bias_scores, presence_differences
from tests.analysis.object_data import dense_table, random_counts


def test_one_seed_is_mcnemars_test_of_scipy_and_statsmodels():
    from statsmodels.stats.contingency_tables import mcnemar

    counts = random_counts(40, 1, 2, 8)
    result = presence_differences(dense_table(counts), "n", "f")
    for o in range(8):
        first, second = counts[:, 0, 0, o] > 0, counts[:, 0, 1, o] > 0
        only = ((first & ~second).sum(), (~first & second).sum())
        cells = [[(first & second).sum(), only[0]], [only[1], (~first & ~second).sum()]]
        scipy = stats.binomtest(only[0], sum(only)).pvalue
        assert result.p_value[o] == pytest.approx(scipy) == pytest.approx(mcnemar(cells, exact=True).pvalue)


def test_several_seeds_are_sign_flips_of_prompt_sums():
    counts = random_counts(10, 3, 2, 6, seed=2)
    result = presence_differences(dense_table(counts), "n", "f")
    for o in range(6):
        sums = (counts > 0)[..., o].sum(axis=1).astype(float)
        scipy = stats.permutation_test(
            (sums[:, 1] - sums[:, 0],), np.sum, permutation_type="samples", n_resamples=np.inf
        )
        assert result.p_value[o] == pytest.approx(min(scipy.pvalue, 1), abs=1e-12)


def test_large_sums_come_from_the_normal_distribution():
    counts = np.zeros((500, 12, 2, 2), int)
    rng = np.random.default_rng(0)
    counts[..., 0] = rng.random((500, 12, 2)) < rng.random((500, 1, 2))
    counts[:, 0, :, 1] = rng.random((500, 2)) < 0.5
    result = presence_differences(dense_table(counts), "n", "f")
    difference = counts[:, :, 1, 0].sum(axis=1) - counts[:, :, 0, 0].sum(axis=1)
    z = difference.sum() / np.sqrt((difference**2).sum())
    assert result.p_value[0] == pytest.approx(2 * stats.norm.sf(abs(z)))


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


def test_what_is_undefined_is_nan_with_a_reason():
    counts = np.zeros((6, 2, 2, 4), int)
    counts[:, :, :, 1] = 1  # in every image
    counts[:3, :, 1, 2] = 1  # only ever with the second word
    counts[:2, 0, 0, 3] = 1
    counts[3:5, 1, 1, 3] = 1
    table = dense_table(counts)
    scores = bias_scores(table, "n", "f")
    assert scores.reason.tolist() == [NEVER, NO_DIFFERENCE, "", ""]
    assert scores.value[1:].tolist() == [0.5, 1, 0.5] and np.isnan(scores.value[0])
    assert scores.high[2] == 1 and 0.3 < scores.low[2] < 0.6
    differences = presence_differences(table, "n", "f")
    assert differences.reason.tolist() == scores.reason.tolist() and np.isnan(differences.low[:2]).all()
    assert np.isnan(differences.p_value[:2]).all() and differences.p_value[2:].tolist() == [0.25, 1.0]
