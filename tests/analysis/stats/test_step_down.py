"""Sign flips adjusted step by step, against Westfall and Young's algorithm written out, and against SciPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.sign_flips import sign_flip_test
from analysis.stats.step_down import step_down_test


def written_out(values):
    """Algorithm 4.1 of Westfall and Young 1993 over every flip, one column after the other."""
    known = np.nan_to_num(values)
    norm = np.sqrt((known**2).sum(axis=0))
    flips = np.array(
        [np.abs(np.array(signs) @ known) / norm for signs in product((1, -1), repeat=len(known))]
    )
    observed = np.abs(known.sum(axis=0)) / norm
    order = sorted(range(len(observed)), key=lambda column: -observed[column])
    found, least = np.empty(len(order)), 0.0
    for place, column in enumerate(order):
        largest = flips[:, order[place:]].max(axis=1)
        least = max(least, (largest >= observed[column] - 1e-9).mean())
        found[column] = least
    return found


def test_over_every_flip_it_is_the_algorithm_written_out():
    rng = np.random.default_rng(3)
    values = rng.normal(0.4, 1, (7, 6)) + rng.normal(0, 1, (7, 1))
    values[2, 1] = np.nan
    values[:, 4] = 2.0  # the same in every prompt
    found = step_down_test(values)
    assert found.exact
    np.testing.assert_allclose(found.p_adjusted, written_out(values))
    assert found.p_value[4] == 2 / 2**7
    for column in (0, 2, 3):
        test = stats.permutation_test(
            (values[:, column],), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert found.p_value[column] == pytest.approx(test.pvalue)


def test_no_step_takes_more_than_the_largest_of_all_columns():
    rng = np.random.default_rng(5)
    values = rng.normal(0, 1, (20, 8)) + np.array([2.0, 1.0, *[0.0] * 6])
    single = sign_flip_test(values, permutations=999)
    found = step_down_test(values, permutations=999)
    assert not found.exact
    np.testing.assert_allclose(found.p_value, single.p_value)
    assert (found.p_adjusted <= single.p_adjusted).all() and (found.p_adjusted < single.p_adjusted).any()
    assert (found.p_adjusted >= found.p_value).all()


def test_columns_without_values_or_with_nothing_but_0_take_no_part():
    values = np.array([[1.0, np.nan, 0.0], [2.0, np.nan, 0.0], [1.5, np.nan, 0.0]])
    found = step_down_test(values)
    np.testing.assert_array_equal(found.p_value, [0.25, np.nan, 1.0])
    np.testing.assert_array_equal(found.p_adjusted, [0.25, np.nan, 1.0])
    assert len(step_down_test(np.zeros((3, 0))).p_value) == 0
    with pytest.raises(ValueError, match="permutations"):
        step_down_test(values, permutations=0)


def test_the_same_statistic_of_another_scale_is_a_tie():
    """1 and 0.3 in all of six prompts: whichever column comes first, two of 64 flips reach it."""
    found = step_down_test(np.tile([0.3, 1.0, 1 / 9], (6, 1)))
    assert found.p_adjusted.tolist() == [2 / 64] * 3
