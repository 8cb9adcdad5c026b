"""Adjusted p-values against statsmodels."""

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.stats.multiplicity import adjust_p_values


@pytest.mark.parametrize(("method", "name"), [("bh", "fdr_bh"), ("holm", "holm"), ("hommel", "hommel")])
def test_adjustment_is_that_of_statsmodels(method, name):
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
