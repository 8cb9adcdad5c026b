"""Tests of groups whose whole draws change places: what they compute and find."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.group_swaps import CONSTANT, ONE_DRAW, ONE_GROUP, group_swaps


def test_explained_is_that_of_an_analysis_of_variance():
    values = np.random.default_rng(0).random((5, 7, 2))
    values[0, :3, 1] = np.nan
    found = group_swaps(values, draws=99)
    for column in range(2):
        groups = [own[~np.isnan(own)] for own in values[..., column]]
        n = sum(map(len, groups))
        f = stats.f_oneway(*groups).statistic
        assert found.explained[column] == pytest.approx(4 * f / (4 * f + n - 5))
    assert found.units.tolist() == [35, 32] and found.groups.tolist() == [5, 5]


def test_p_values_are_the_shares_of_all_swaps_within_draws():
    values = np.random.default_rng(1).random((2, 6, 1)) + np.array([0.0, 0.25])[:, None, None]
    a, b = values[..., 0]
    apart = np.array([abs((np.array(signs) * (a - b)).sum()) for signs in product((1, -1), repeat=6)])
    expected = (apart >= abs((a - b).sum()) - 1e-12).mean()
    found = group_swaps(values, draws=9999)
    error = 4 * np.sqrt(expected * (1 - expected) / 9999)
    assert found.p_value[0] == pytest.approx(expected, abs=error)
    assert found.group_p_value[0, 0] == found.p_value[0]  # of two groups each is as far off as the other


def test_what_is_undefined_says_why():
    values = np.random.default_rng(4).random((3, 4, 3))
    values[..., 1] = 0.5
    values[1:, :, 2] = np.nan
    found = group_swaps(values, draws=19)
    assert found.reason.tolist() == ["", CONSTANT, ONE_GROUP]
    assert np.isnan(found.p_value[1:]).all() and np.isnan(found.group_p_value[:, 1:]).all()
    assert group_swaps(values[:, :1], draws=19).reason.tolist() == [ONE_DRAW, ONE_DRAW, ONE_GROUP]
    empty = group_swaps(np.full((3, 4, 1), np.nan), draws=19)
    assert empty.reason.tolist() == [ONE_GROUP] and np.isnan(empty.p_adjusted).all()
    with pytest.raises(ValueError, match="expected shape"):
        group_swaps(np.zeros((3, 4)))
