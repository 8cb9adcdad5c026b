"""Tests of groups whose whole draws change places: what they compute and find."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.group_swaps import CONSTANT, ONE_DRAW, ONE_GROUP, _Units, group_swaps


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


def test_a_group_that_differs_is_found_and_named():
    rng = np.random.default_rng(3)
    values = (rng.random((8, 12, 3)) < 0.3).astype(float)
    values[2, :, 1] = 1.0
    found = group_swaps(values, draws=999)
    assert found.p_adjusted[1] <= 0.01 and (found.p_adjusted[[0, 2]] > 0.05).all()
    assert found.group_p_value[:, 1].argmin() == 2 and found.group_p_value[2, 1] <= 0.005


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


def deviate(own, others, least):
    """Welch's t of one group against all others, as a normal deviate (Wallace 1959); no variance is below `least`."""
    means, variances, sizes = zip(*((one.mean(), one.var(ddof=1), len(one)) for one in (own, others)))
    spreads = np.sqrt(np.maximum(variances, least))
    t = stats.ttest_ind_from_stats(
        means[0], spreads[0], sizes[0], means[1], spreads[1], sizes[1], equal_var=False
    ).statistic
    parts = spreads**2 / sizes
    free = [n - 1 if v > least else sum(sizes) - 1 for v, n in zip(variances, sizes)]
    if min(variances) > least:
        found = stats.ttest_ind(own, others, equal_var=False)
        assert t == pytest.approx(found.statistic, rel=1e-12)
        df = found.df
    else:
        df = parts.sum() ** 2 / (parts**2 / free).sum()
    return (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))


def test_statistics_of_arrangements_are_those_of_welch_group_by_group():
    rng = np.random.default_rng(5)
    values = rng.random((6, 40, 3))
    values[..., 2] = (
        np.arange(40) % 2 + np.arange(6)[:, None] / 1e3
    )  # own and others' variances above that of all
    values[rng.random(values.shape) < 0.2] = np.nan
    known = ~np.isnan(values)
    away = np.where(known, values - np.nanmean(values, axis=(0, 1)), 0.0)
    places = np.stack([rng.permuted(np.tile(np.arange(6), (4, 1)), axis=1) for _ in range(40)], axis=2)
    between, off = _Units(away, known).statistics(places)
    for one, arrangement in enumerate(places):
        for column in range(3):
            groups = [values[arrangement[group], np.arange(40), column] for group in range(6)]
            groups = [own[~np.isnan(own)] for own in groups]
            whole = np.concatenate(groups)
            expected = sum(len(own) * (own.mean() - whole.mean()) ** 2 for own in groups)
            assert between[one, column] == pytest.approx(expected, rel=1e-12, abs=1e-12)
            for group, own in enumerate(groups):
                others = np.concatenate([*groups[:group], *groups[group + 1 :]])
                expected = deviate(own, others, whole.var(ddof=1))
                assert off[one, group, column] == pytest.approx(expected, rel=1e-12, abs=1e-12)
