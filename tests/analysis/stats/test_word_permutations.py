"""Permutations of words over two sides: against SciPy and by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.word_permutations import permutation_floor, word_permutation_test


@pytest.mark.parametrize("sizes", [(2, 2), (4, 3)])
def test_by_scipy(sizes):
    rng = np.random.default_rng(sum(sizes))
    sides = [rng.standard_normal((size, 20)) + shift for size, shift in zip(sizes, (0.7, 0.0))]
    expected = stats.permutation_test(
        sides,
        lambda a, b, axis: np.abs(a.mean(axis) - b.mean(axis)),
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
    )
    np.testing.assert_allclose(word_permutation_test(*sides), expected.pvalue)


@pytest.mark.parametrize(
    ("sizes", "floor"), [((1, 1), 1), ((2, 2), 1 / 3), ((3, 3), 1 / 10), ((2, 3), 1 / 10)]
)
def test_the_floor_is_what_the_farthest_sides_reach(sizes, floor):
    far = [np.arange(size)[:, None] + shift for size, shift in zip(sizes, (100.0, 0.0))]
    assert permutation_floor(*sizes) == pytest.approx(floor)
    assert word_permutation_test(*far)[0] == pytest.approx(floor)


def test_ties_are_ties_and_nothing_is_nan():
    assert word_permutation_test(np.full((3, 1), 0.1), np.full((3, 1), 0.1))[0] == 1
    assert np.isnan(word_permutation_test([[np.nan], [1.0]], [[0.0], [2.0]])[0])
    assert np.isnan(word_permutation_test(np.zeros((12, 1)), np.ones((12, 1)))[0])  # too many to count
    assert np.isnan(permutation_floor(0, 3))
