"""A mean of absolute differences: the folded normal of SciPy, and the coverage of its interval."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.absolute_mean import absolute_mean


def test_what_an_error_adds_is_the_folded_normals():
    differences, errors = np.array([0.0, 0.05, -0.3]), np.array([0.1, 0.2, 0.1])
    mean = [stats.foldnorm.mean(abs(v) / s, scale=s) for v, s in zip(differences, errors)]
    expected = 2 * np.abs(differences).mean() - np.mean(mean)
    got = absolute_mean(differences, np.diag(errors**2))
    assert got.score == pytest.approx(max(expected, 0), abs=1e-12)
    far = absolute_mean(differences + 3, np.diag(errors**2))
    assert far.score == pytest.approx(far.raw, abs=1e-6)


@pytest.mark.parametrize("size", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("shared", [0.0, 0.7])
def test_the_interval_holds_the_true_score(size, shared):
    rng = np.random.default_rng(0)
    covariance = 0.01 * (shared + (1 - shared) * np.eye(15))
    root = np.linalg.cholesky(covariance)
    held = []
    for _ in range(300):
        truth = 0.1 * size * rng.normal(size=15)
        got = absolute_mean(truth + root @ rng.normal(size=15), covariance)
        held.append(got.low <= np.abs(truth).mean() <= got.high)
    assert np.sum(held) >= stats.binom.ppf(0.005, 300, 0.95)


def test_few_degrees_of_freedom_widen_it_and_nothing_has_no_score():
    v, covariance = np.array([0.3, -0.2]), 0.001 * np.eye(2)
    wide, narrow = absolute_mean(v, covariance, freedom=3), absolute_mean(v, covariance)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert np.isnan(absolute_mean([], np.zeros((0, 0))).score)


def test_shapes_and_gaps_are_refused():
    with pytest.raises(ValueError, match="shape \\(n, n\\)"):
        absolute_mean([1.0], np.zeros(1))
    with pytest.raises(ValueError, match="leave these out"):
        absolute_mean([np.nan], np.zeros((1, 1)))
