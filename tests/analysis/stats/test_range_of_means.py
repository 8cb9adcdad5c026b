"""Tests of the range of means: its numbers against SciPy, and how often its interval holds the true range."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from analysis.stats.range_of_means import CONSTANT, ONE_GROUP, ONE_UNIT, range_of_means


def test_ends_are_those_of_all_paired_intervals_together():
    values = np.random.default_rng(0).normal([[0.0], [0.4], [1.0], [0.9]], 1, size=(4, 9))
    values[1, 3] = np.nan  # of no group this unit counts
    found = range_of_means(values, level=0.9)
    whole = np.delete(values, 3, axis=1)
    lower, upper = [], []
    for one, other in combinations(range(4), 2):
        test = stats.ttest_rel(whole[one], whole[other])
        ends = test.confidence_interval(1 - 0.1 / 6)
        half = (ends.high - ends.low) / 2
        size = abs((whole[one] - whole[other]).mean())
        lower.append(size - half)
        upper.append(size + half)
    assert found.low == pytest.approx(max(0, *lower)) and found.high == pytest.approx(max(upper))
    means = whole.mean(axis=1)
    assert found.range == pytest.approx(np.ptp(means)) and found.units == 8
    assert (found.lowest, found.highest) == (means.argmin(), means.argmax())


@pytest.mark.parametrize("apart", [0.0, 0.3, 1.0])
def test_interval_holds_the_true_range_as_often_as_it_says(apart):
    rng, held, runs = np.random.default_rng(1), 0, 400
    true = np.array([0.0, apart / 2, apart, apart])[:, None]
    for _ in range(runs):
        found = range_of_means(true + rng.normal(size=(1, 12)) + 0.5 * rng.normal(size=(4, 12)))
        held += found.low <= apart <= found.high
    assert held / runs >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)


def test_what_cannot_be_known_has_a_reason():
    assert range_of_means([[0.1, 0.2], [np.nan, np.nan]]).reason == ONE_GROUP
    assert range_of_means([[0.1], [0.3]]).reason == ONE_UNIT
    assert range_of_means([[0.1, 0.2], [0.3, 0.4]]).reason == CONSTANT
    same = range_of_means([[0.0] * 4, [0.0] * 4], width=1.0)
    assert (same.range, same.low, same.reason) == (0, 0, "") and same.high == 1
    many = range_of_means([[0.0] * 200, [0.0] * 200], width=1.0)
    assert many.high == pytest.approx(2 * (1 - 0.05 ** (1 / 200)))
    with pytest.raises(ValueError, match="shape"):
        range_of_means([0.1, 0.2])
    with pytest.raises(ValueError, match="level"):
        range_of_means([[0.1, 0.2]], level=1)
