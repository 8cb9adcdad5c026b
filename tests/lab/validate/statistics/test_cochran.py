"""Cochran's Q against statsmodels, enumeration and the tests of the product."""

from itertools import permutations, product

import numpy as np
import pytest

from analysis.stats.object_tests import (
    NEVER,
    NO_DIFFERENCE,
    NO_IMAGES,
    cochran_mantel_haenszel,
    paired_presence_test,
)
from analysis.stats.resampling import ONE_PROMPT
from analysis.stats.table_tests import label_swap_test
from lab.validate.statistics.cochran import cochran_q_test
from tests.analysis.object_data import dense_table, random_counts


def test_cochrans_q_is_that_of_statsmodels():
    from statsmodels.stats.contingency_tables import cochrans_q

    counts = random_counts(200, 1, 3, 5)
    result = cochran_q_test(dense_table(counts))
    for o in range(5):
        known = cochrans_q((counts[:, 0, :, o] > 0).astype(int))
        assert result.statistic[o] == pytest.approx(known.statistic)
        if not result.exact[o]:
            assert result.p_value[o] == pytest.approx(known.pvalue)
    assert not result.exact.all()


@pytest.mark.parametrize(("n_seeds", "k"), [(1, 3), (2, 3), (2, 2), (1, 4)])
def test_exact_q_by_enumeration(n_seeds, k):
    counts = random_counts(3 if k > 3 else 5, n_seeds, k, 4, seed=3)
    table = dense_table(counts, "nfmx")
    result = cochran_q_test(table)
    sums = (counts > 0).sum(axis=1)  # prompts, k, objects
    assert (result.reason == "").sum() >= 3
    for o in np.flatnonzero(result.reason == ""):
        own = sums[..., o]
        observed = (own.sum(axis=0) ** 2).sum()
        reached = [
            (sum(np.array(row) for row in rows) ** 2).sum() >= observed
            for rows in product(*[list(permutations(row)) for row in own.tolist()])
        ]
        assert result.exact[o] and result.p_value[o] == pytest.approx(np.mean(reached))


def test_q_of_two_indicators_is_the_paired_test():
    counts = random_counts(20, 2, 2, 6, seed=5)
    table = dense_table(counts)
    np.testing.assert_allclose(
        cochran_q_test(table).p_value, paired_presence_test(table, "n", "f").p_value, rtol=1e-10
    )


def test_q_of_two_indicators_is_the_stratified_test_over_prompts():
    table = dense_table(random_counts(400, 3, 2, 5, seed=8))
    over = cochran_mantel_haenszel(table, "n", "f")
    np.testing.assert_allclose(over.statistic_prompts, cochran_q_test(table).statistic)


def test_object_p_values_are_those_of_the_exact_q():
    table = dense_table(random_counts(12, 2, 3, 8, seed=3))
    drawn, exact = label_swap_test(table, permutations=5000), cochran_q_test(table)
    assert exact.exact.all()
    np.testing.assert_allclose(drawn.object_p_value, exact.p_value, atol=0.035)  # 5 sigma


def test_what_cannot_be_tested_says_why():
    counts = np.zeros((6, 2, 2, 3), int)
    counts[:, :, :, 1] = 1  # in every image
    counts[:3, :, 1, 2] = 1
    assert cochran_q_test(dense_table(counts)).reason.tolist() == [NEVER, NO_DIFFERENCE, ""]


@pytest.mark.parametrize(("n_prompts", "reason"), [(0, NO_IMAGES), (1, ONE_PROMPT)])
def test_no_prompt_and_one_prompt(n_prompts, reason):
    result = cochran_q_test(dense_table(np.ones((n_prompts, 2, 2, 3), int) * np.array([1, 0, 2])))
    assert result.reason.tolist() == [reason] * 3 and np.isnan(result.p_value).all()


def test_of_many_indicators_it_is_the_limiting_distribution():
    result = cochran_q_test(dense_table(random_counts(12, 1, 12, 3), "abcdefghijkl"))
    assert np.isfinite(result.p_value).all() and not result.exact.any()
