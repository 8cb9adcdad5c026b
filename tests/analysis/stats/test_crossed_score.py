"""Scores over contexts and seeds that are crossed: no more rejections than the level, and the covariance of both."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.crossed import crossed_mean
from analysis.stats.crossed_score import crossed_adjusted, crossed_covariance, crossed_score_test


@pytest.mark.parametrize(("context", "seed"), [(0.0, 1.0), (1.0, 1.0)])
def test_without_a_difference_it_rejects_no_more_than_it_says(context, seed):
    rng = np.random.default_rng(0)
    rejected, adjusted = [], []
    for number in range(200):
        parts = rng.normal(size=(16, 6, 15))
        parts += context * rng.normal(size=(16, 1, 15)) + seed * rng.normal(size=(1, 6, 15))
        rejected.append(crossed_score_test(parts / 96, draws=400, seed=number)[2] <= 0.05)
        adjusted.append(crossed_adjusted(parts / 96, draws=400, seed=number).min() <= 0.05)
    assert np.sum(rejected) <= stats.binom.ppf(0.999, 200, 0.05)
    assert np.sum(adjusted) <= stats.binom.ppf(0.999, 200, 0.05)


def test_a_difference_at_every_context_and_seed_is_found():
    rng = np.random.default_rng(1)
    parts = (rng.normal(size=(16, 6, 15)) + 0.3 * rng.normal(size=(1, 6, 15)) + 1.0) / 96
    floor, sd, p_value = crossed_score_test(parts, draws=2000)
    assert p_value < 0.05 and floor + sd < np.abs(parts.sum(axis=(0, 1))).mean()


def test_the_covariance_has_the_variances_of_a_crossed_mean():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(8, 5, 3)) + rng.normal(size=(1, 5, 3)) + 0.5 * rng.normal(size=(8, 1, 3))
    covariance, freedom = crossed_covariance((values - values.mean(axis=(0, 1))) / 40)
    plain = crossed_mean(values)
    np.testing.assert_allclose(np.diag(covariance), plain.prompts + plain.seeds, rtol=1e-9)
    assert 4 <= freedom <= 11 and (np.linalg.eigvalsh(covariance) > -1e-12).all()
