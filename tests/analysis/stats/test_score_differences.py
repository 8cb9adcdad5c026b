"""Differences between scores of models in the same units: pairing, coverage, ranks of all models at once."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.score_differences import score_differences


def world(rng, centres, shared=0.0, units=16):
    """Differences of every model in every unit; units have something in common over models."""
    common = shared * rng.standard_normal((units, centres.shape[1]))
    return [centre + common + 0.3 * rng.standard_normal((units, len(centre))) for centre in centres]


def test_far_from_zero_it_is_the_paired_t_interval():
    rng = np.random.default_rng(0)
    values = world(rng, np.array([[10.0, -8.0], [9.0, -8.5]]), shared=1.0)
    found = score_differences(values)
    each = [np.abs(one).mean(axis=1) for one in values]
    expected = stats.ttest_rel(*each).confidence_interval(0.95)
    np.testing.assert_allclose([found.low[0], found.high[0]], expected, atol=1e-3)
    plain = stats.ttest_ind(*each).confidence_interval(0.95)
    assert found.high[0] - found.low[0] < 0.75 * (plain.high - plain.low)
    assert found.pairs == [(0, 1)] and found.n == 16


def test_ranks_hold_all_models_at_once_and_say_what_cannot_be_told_apart():
    rng = np.random.default_rng(1)
    centres = np.array([0.1, 0.5, 0.52, 1.5])[:, None] * rng.choice([-1.0, 1.0], (4, 15))
    held, told = 0, []
    for _ in range(200):
        found = score_differences(world(rng, centres, shared=0.2))
        held += ((found.best <= np.arange(1, 5)) & (np.arange(1, 5) <= found.worst)).all()
        told.append([*found.best, *found.worst])
    assert held >= stats.binom.ppf(0.001, 200, 0.95)
    assert np.median(told, axis=0).tolist() == [1, 2, 2, 4, 1, 3, 3, 4]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="at least two models"):
        score_differences([np.ones((3, 2))])
    with pytest.raises(ValueError, match="one shape"):
        score_differences([np.ones((3, 2)), np.ones((4, 2))])
    with pytest.raises(ValueError, match="got NaN"):
        score_differences([np.ones((3, 2)), np.full((3, 2), np.nan)])
