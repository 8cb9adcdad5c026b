"""Shares behind a reader that errs: its equation, what is undefined, and how often the interval holds the truth."""

import numpy as np
import pytest

from analysis.stats import reader_correction
from analysis.stats.detector_correction import NO_LABELS
from analysis.stats.reader_correction import BLIND, NO_IMAGES, corrected_shares


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
