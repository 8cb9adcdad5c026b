"""Mean absolute differences less what errors add, against simulation."""

import numpy as np
import pytest
from scipy import optimize, stats

from analysis.stats.absolute_mean import (
    _nearest,
    absolute_mean,
    inverted_mean,
    score_differences,
)


def test_what_an_error_adds_is_the_folded_normals():
    differences, errors = np.array([0.0, 0.05, -0.3]), np.array([0.1, 0.2, 0.1])
    mean = [stats.foldnorm.mean(abs(v) / s, scale=s) for v, s in zip(differences, errors)]
    expected = 2 * np.abs(differences).mean() - np.mean(mean)
    got = absolute_mean(differences, np.diag(errors**2))
    assert got.score == pytest.approx(max(expected, 0), abs=1e-12)
    far = absolute_mean(differences + 3, np.diag(errors**2))
    assert far.score == pytest.approx(far.raw, abs=1e-6)


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


def test_the_raw_score_less_the_folded_normals_excess():
    v, sigma = np.array([0.3, -0.1]), np.array([0.1, 0.1])
    real = 1 - (sigma**2).sum() / (v**2).sum()
    at = np.sqrt(real) * np.abs(v)
    mean = np.sqrt(2 / np.pi) * sigma * np.exp(-(at**2) / (2 * sigma**2)) + at * (
        1 - 2 * stats.norm.cdf(-at / sigma)
    )
    found = absolute_mean(v, np.diag(sigma**2), unbiased=True)
    assert found.score == pytest.approx(0.2 - (mean - at).mean(), abs=1e-12)
    assert found.low < found.least < found.score < found.most < found.raw < found.high


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_score_is_nearer_than_the_raw_one_and_intervals_hold(spread):
    rng = np.random.default_rng(0)
    truth = spread * rng.standard_normal(15)
    found = [absolute_mean(truth + rng.standard_normal(15), np.eye(15), unbiased=True) for _ in range(400)]
    target = np.abs(truth).mean()
    off = np.mean([one.score for one in found]) - target
    assert abs(off) <= 0.5 * np.mean([one.raw - target for one in found]) + 0.02
    held = sum(one.low <= target <= one.high for one in found)
    assert stats.binom.ppf(0.001, 400, 0.95) <= held


def test_errors_that_go_together_widen_the_interval():
    v = np.full(5, 1.0)
    alone, together = (absolute_mean(v, 0.01 * c, unbiased=True) for c in (np.eye(5), np.ones((5, 5))))
    assert together.high - together.raw == pytest.approx(np.sqrt(5) * (alone.high - alone.raw), rel=1e-6)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="expected shape \\(n, n\\)"):
        absolute_mean([1.0], np.eye(2))
    with pytest.raises(ValueError, match="got NaN"):
        absolute_mean([np.nan], np.eye(1))
    assert np.isnan(absolute_mean([], np.zeros((0, 0))).score)


def world(rng, centres, shared=0.0, units=16):
    """Differences of every model in every unit; units have something in common over models."""
    common = shared * rng.standard_normal((units, centres.shape[1]))
    return [centre + common + 0.3 * rng.standard_normal((units, len(centre))) for centre in centres]


def test_far_from_zero_it_is_the_paired_t_interval():
    rng = np.random.default_rng(0)
    values = world(rng, np.array([[10.0, -8.0], [9.0, -8.5]]), shared=1.0)
    found = score_differences(values)[1]
    each = [np.abs(one).mean(axis=1) for one in values]
    expected = stats.ttest_rel(*each).confidence_interval(0.95)
    np.testing.assert_allclose([found.low[0], found.high[0]], expected, atol=1e-3)
    plain = stats.ttest_ind(*each).confidence_interval(0.95)
    assert found.high[0] - found.low[0] < 0.75 * (plain.high - plain.low)
    assert found[["first", "second"]].to_numpy().tolist() == [[0, 1]]


def test_ranks_hold_all_models_at_once_and_say_what_cannot_be_told_apart():
    rng = np.random.default_rng(1)
    centres = np.array([0.1, 0.5, 0.52, 1.5])[:, None] * rng.choice([-1.0, 1.0], (4, 15))
    held, told = 0, []
    for _ in range(200):
        found = score_differences(world(rng, centres, shared=0.2))[0]
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
