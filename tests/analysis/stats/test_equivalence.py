"""Equivalence and adjustment against SciPy and statsmodels."""

import numpy as np
import pytest

from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.equivalence import equivalence_test
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.rare_changes import (
    bounded_ends,
    effective_prompts,
    exponential_weights,
    few_carry,
    range_of,
)


def test_equivalence_claims_where_its_interval_lies_within_the_bounds_and_never_below_statsmodels():
    from statsmodels.stats.weightstats import ttost_paired

    values = np.random.default_rng(6).exponential(1, (60, 40)) - np.linspace(0.5, 1.5, 40)
    reach = np.abs(values).max(axis=0)
    p_value, interval = equivalence_test(values, 0.5, reach=reach), bootstrap_interval(values, level=0.9)
    bounded = bounded_ends(values, exponential_weights(60, 2000, 0), range_of(values, reach), 0.9)
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


@pytest.mark.parametrize("delta", [0, np.nan])
def test_equivalence_bounds_are_errors_where_they_mean_nothing(delta):
    with pytest.raises(ValueError, match="delta: expected a number above 0"):
        equivalence_test([[1.0], [2.0]], delta, reach=[3.0])


@pytest.mark.parametrize("shape", [(1, 2), (5, 0)])
def test_nothing_and_one_prompt_are_nan_with_a_reason(shape):
    assert np.isnan(equivalence_test(np.ones(shape), 1, reach=np.ones(shape[1]))).all()


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
