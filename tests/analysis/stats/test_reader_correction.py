"""Shares behind a reader that errs: its equation, what is undefined, and how often the interval holds the truth."""

import numpy as np
import pytest
from scipy import special, stats

from analysis.stats import reader_correction
from analysis.stats.detector_correction import NO_LABELS
from analysis.stats.effects import student_interval
from analysis.stats.reader_correction import BLIND, NO_IMAGES, corrected_shares, shares_between


def test_the_matrix_method():
    labels = np.array([[900, 100, 200, 800]])
    result = corrected_shares([480], [1000], labels)
    matrix = [[result.sensitivity[0], result.false_rate[0]], [1, 1]]  # p = s π + f (1 − π), π + (1 − π) = 1
    there, absent = np.linalg.solve(matrix, [0.48, 1.0])
    assert result.share[0] == pytest.approx(there) and there + absent == pytest.approx(1)
    assert result.sensitivity[0] == pytest.approx(0.9, abs=0.001)


def test_an_interval_holds_the_truth_as_often_as_it_says():
    rng, rows, n = np.random.default_rng(5), 200, 30
    for truth, s, f in ((0.05, 0.9, 0.1), (0.5, 0.85, 0.1), (0.9, 0.95, 0.02)):
        said = rng.binomial(n, s * truth + f * (1 - truth), rows)
        hits, false = rng.binomial(120, s, rows), rng.binomial(150, f, rows)
        labels = np.stack([hits, 120 - hits, false, 150 - false], axis=1)
        result = corrected_shares(said, np.full(rows, n), labels, draws=500)
        covered = ((result.low <= truth) & (truth <= result.high)).mean()
        assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / rows), (truth, covered)


def test_what_is_undefined_says_why():
    labels = [[5, 1, 1, 5], [0, 0, 1, 5], [30, 30, 30, 30], [5, 1, 1, 5]]
    result = corrected_shares([3, 3, 3, 0], [9, 9, 9, 0], labels)
    assert result.reason.tolist() == ["", NO_LABELS, BLIND, NO_IMAGES]
    assert np.isnan(result.share[1:]).all() and np.isfinite(result.share[0])


def test_the_same_seed_gives_the_same_interval():
    one, two = (corrected_shares([3], [9], [[50, 5, 5, 50]], seed=seed).low for seed in (1, 1))
    assert one == two and reader_correction.READER_STREAM not in (1, 2, 3, 4, 11, 21)


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
