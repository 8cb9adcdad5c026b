"""The mean absolute difference from estimates: exact without error, near the truth with it, bounds in order."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.estimated_score import estimated_score


def test_the_raw_score_less_the_folded_normals_excess():
    v, sigma = np.array([0.3, -0.1]), np.array([0.1, 0.1])
    real = 1 - (sigma**2).sum() / (v**2).sum()
    at = np.sqrt(real) * np.abs(v)
    mean = np.sqrt(2 / np.pi) * sigma * np.exp(-(at**2) / (2 * sigma**2)) + at * (
        1 - 2 * stats.norm.cdf(-at / sigma)
    )
    found = estimated_score(v, np.diag(sigma**2))
    assert found.score == pytest.approx(0.2 - (mean - at).mean(), abs=1e-12)
    assert found.low < found.least < found.score < found.most < found.raw < found.high


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_score_is_nearer_than_the_raw_one_and_intervals_hold(spread):
    rng = np.random.default_rng(0)
    truth = spread * rng.standard_normal(15)
    found = [estimated_score(truth + rng.standard_normal(15), np.eye(15)) for _ in range(400)]
    target = np.abs(truth).mean()
    off = np.mean([one.score for one in found]) - target
    assert abs(off) <= 0.5 * np.mean([one.raw - target for one in found]) + 0.02
    held = sum(one.low <= target <= one.high for one in found)
    assert stats.binom.ppf(0.001, 400, 0.95) <= held


def test_errors_that_go_together_widen_the_interval():
    v = np.full(5, 1.0)
    alone, together = (estimated_score(v, 0.01 * c) for c in (np.eye(5), np.ones((5, 5))))
    assert together.high - together.raw == pytest.approx(np.sqrt(5) * (alone.high - alone.raw), rel=1e-6)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="expected shape \\(n, n\\)"):
        estimated_score([1.0], np.eye(2))
    with pytest.raises(ValueError, match="got NaN"):
        estimated_score([np.nan], np.eye(1))
    assert np.isnan(estimated_score([], np.zeros((0, 0))).score)
