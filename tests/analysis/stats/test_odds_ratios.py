"""Common odds ratios against statsmodels and matched pairs."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.odds_ratios import common_odds_ratios
from tests.analysis.object_data import dense_table, random_counts


def test_the_common_odds_ratio_is_that_of_statsmodels():
    from statsmodels.stats.contingency_tables import StratifiedTable

    counts = random_counts(15, 6, 2, 5, seed=1)
    result = common_odds_ratios(dense_table(counts), "n", "f")
    present = (counts > 0).sum(axis=1)
    for o in range(5):
        strata = [np.array([[f, 6 - f], [n, 6 - n]], float) for n, f in present[..., o] if 0 < f + n < 12]
        assert result.odds_ratio[o] == pytest.approx(StratifiedTable(strata).oddsratio_pooled)


def test_odds_ratio_with_one_seed_is_that_of_matched_pairs():
    counts = random_counts(60, 1, 2, 5, seed=4)
    result = common_odds_ratios(dense_table(counts), "n", "f")
    for o in range(5):
        first, second = counts[:, 0, 0, o] > 0, counts[:, 0, 1, o] > 0
        b, c = (second & ~first).sum(), (first & ~second).sum()
        assert result.odds_ratio[o] == pytest.approx(b / c)
        half = stats.norm.ppf(0.975) * np.sqrt(1 / b + 1 / c)
        np.testing.assert_allclose([result.low[o], result.high[o]], b / c * np.exp([-half, half]), rtol=1e-10)
