"""A share between the readings of two words, held against known shares and the ratio estimator's error."""

import numpy as np
import pytest
from scipy import special, stats

from analysis.stats.effects import student_interval
from analysis.stats.shares_between import shares_between


def readings(rng, share, prompts, *, sees=0.86, invents=0.08, images=4, spread=0.6):
    """Shares of a prompt's images that a reader takes for so: of the word in question, of none and of all.

    Prompts differ in how much the reader sees and in the share of the word.
    """
    odds = rng.normal(size=(prompts, 1)) * spread
    s, f = (special.expit(special.logit(one) + odds) for one in (sees, invents))
    own = special.expit(special.logit(share) + rng.normal(size=(prompts, 1)) * spread)
    p = np.where(rng.random((prompts, images)) < own, s, f)
    return [(rng.random((prompts, images)) < one).mean(axis=1) for one in (p, f, s)]


def test_a_share_between_two_readings_is_right_where_the_reading_is_not():
    """Half of the images are so and 0.47 are read so: the raw interval misses ½, the other covers it."""
    rng = np.random.default_rng(3)
    raw, corrected, found = 0, 0, []
    for _ in range(300):
        said, none, all_of = readings(rng, 0.5, 240)
        one = shares_between(said, none, all_of)
        found.append(one.share)
        corrected += abs(student_interval(one.values[:, None]).mean[0] - 0.5) <= _half(one.values)
        raw += abs(said.mean() - 0.5) <= _half(said)
    assert raw < 0.75 * 300  # 95 % asked for
    assert stats.binomtest(corrected, 300, 0.95).pvalue > 0.01
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found) / np.sqrt(300) + 0.005


def _half(values):
    interval = student_interval(values[:, None])
    return float(interval.high[0] - interval.mean[0])


def test_a_share_between_is_the_ratio_estimators():
    rng = np.random.default_rng(0)
    said, none, all_of = readings(rng, 0.3, 30)
    said[4] = np.nan
    kept = np.arange(30) != 4
    one = shares_between(said, none, all_of)
    p, f, s = (values[kept] for values in (said, none, all_of))
    assert one.share == pytest.approx((p - f).sum() / (s - f).sum())
    assert np.isnan(one.values[4]) and one.values[kept].mean() == pytest.approx(one.share)
    # the spread of the values is that of the estimate: by the jackknife
    left_out = np.array([np.delete(p - f, i).sum() / np.delete(s - f, i).sum() for i in range(29)])
    jackknife = np.sqrt(28 / 29 * ((left_out - left_out.mean()) ** 2).sum())
    assert one.values[kept].std(ddof=1) / np.sqrt(29) == pytest.approx(jackknife, rel=0.05)
    assert np.abs(one.values[kept] - one.share).max() <= one.reach
    alike = shares_between(said, none, none)
    assert np.isnan(alike.share) and "the words whose images are and are not" in alike.reason
