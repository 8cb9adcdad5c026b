"""A mean of absolute differences: the folded normal of SciPy, and the coverage of its interval."""

import numpy as np
import pytest
from scipy import optimize, stats

from analysis.stats.absolute_mean import _nearest, absolute_mean, inverted_mean


def test_what_an_error_adds_is_the_folded_normals():
    differences, errors = np.array([0.0, 0.05, -0.3]), np.array([0.1, 0.2, 0.1])
    mean = [stats.foldnorm.mean(abs(v) / s, scale=s) for v, s in zip(differences, errors)]
    expected = 2 * np.abs(differences).mean() - np.mean(mean)
    got = absolute_mean(differences, np.diag(errors**2))
    assert got.score == pytest.approx(max(expected, 0), abs=1e-12)
    far = absolute_mean(differences + 3, np.diag(errors**2))
    assert far.score == pytest.approx(far.raw, abs=1e-6)


def test_shapes_and_gaps_are_refused():
    with pytest.raises(ValueError, match="shape \\(n, n\\)"):
        absolute_mean([1.0], np.zeros(1))
    with pytest.raises(ValueError, match="leave these out"):
        absolute_mean([np.nan], np.zeros((1, 1)))


def test_an_inverted_interval_holds_the_scores_that_the_test_does_not_exclude():
    """By SciPy's folded normal of one difference, and by the nearest vector from an optimizer of several."""
    for v, sigma in [(0.3, 0.1), (0.05, 0.1), (0.0, 0.2)]:
        got = inverted_mean([v], [[sigma**2]])
        grid = np.linspace(0, 1, 4001)
        larger = stats.norm.sf((v - grid) / sigma) + stats.norm.cdf((-v - grid) / sigma)
        ends = (grid[larger >= 0.025].min(), grid[larger <= 0.975].max(initial=0.0))
        assert (got.low, got.high) == pytest.approx(
            ends, abs=0.2 * sigma
        )  # three errors of an end by 2,000 draws
    rng = np.random.default_rng(0)
    size, variance = np.abs(rng.normal(size=6)), np.array([0.1, 0.2, 0.0, 0.4, 0.1, 0.3])
    for score in (0.1, 0.5 * size.mean(), 0.9 * size.mean(), 1.5 * size.mean()):
        expected = optimize.minimize(
            lambda x: ((x - size) ** 2 / np.maximum(variance, 1e-3)).sum(),
            np.full(6, score),
            bounds=[(0, None)] * 6,
            constraints={"type": "eq", "fun": lambda x, score=score: x.mean() - score},
            method="SLSQP",
        ).x
        got = _nearest(size, np.maximum(variance, 1e-3), score)
        np.testing.assert_allclose(got, expected, atol=1e-3)
        assert got.mean() == pytest.approx(score)
    assert _nearest(size, variance, 0.9 * size.mean())[2] == size[2]
    assert inverted_mean([0.5, -0.25], np.zeros((2, 2))).low == pytest.approx(0.375, abs=1e-5)
