"""Samples with unequal probabilities, beside SciPy's optimum and every sample there is."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize

from analysis.stats.unequal_probabilities import inclusion_probabilities, systematic_sample


class Start:
    """A generator whose random number is given."""

    def __init__(self, start):
        self.start = start

    def random(self):
        return self.start


def every_sample(chances):
    """All systematic samples: the probability, a start and who is chosen; starts are anywhere between 0 and 1."""
    ends = np.unique(np.concatenate([[0, 1], np.round(np.cumsum(chances) % 1, 9)]))
    for low, high in pairwise(ends):
        start = (low + high) / 2
        yield high - low, start, systematic_sample(chances, Start(start))


@pytest.mark.parametrize("number", [3, 5.5, 7])
def test_probabilities_are_those_of_least_variance(number):
    spread = np.array([0.1, 0.5, 1.0, 1.0, 2.0, 4.0, 9.0, 30.0])
    found = inclusion_probabilities(spread, number, 0.05)
    best = optimize.minimize(
        lambda p: (spread**2 / p).sum(),
        np.full(8, number / 8),
        jac=lambda p: -(spread**2) / p**2,
        bounds=[(0.05, 1)] * 8,
        constraints={"type": "eq", "fun": lambda p: p.sum() - number},
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    np.testing.assert_allclose(found, best.x, atol=4e-3)
    assert found.min() >= 0.05 and found.max() <= 1 and (found == found.round(3)).all()


def test_all_are_chosen_where_the_number_is_theirs_and_the_least_is_kept():
    assert inclusion_probabilities([1.0, 2.0, 3.0], 3).tolist() == [1, 1, 1]
    assert inclusion_probabilities([1.0, 2.0, 3.0], 0.1, [0.5, 0.5, 0.25]).tolist() == [0.5, 0.5, 0.25]
    assert len(inclusion_probabilities([], 2)) == 0


def test_every_systematic_sample_together_has_the_probabilities():
    chances = np.array([0.25, 0.417, 1.0, 0.333, 0.5, 0.1, 0.9])
    total = sum(weight * chosen for weight, _, chosen in every_sample(chances))
    np.testing.assert_allclose(total, chances, atol=1e-9)
    sizes = {int(chosen.sum()) for _, _, chosen in every_sample(chances)}
    assert sizes <= {3, 4}  # the sum is 3.5
    pairs = [chosen[[0, 1, 2]].any() and chosen[[4, 5, 6]].any() for _, _, chosen in every_sample(chances)]
    assert all(pairs)  # neighbours whose sum is 1 or more


def test_weighted_totals_have_no_bias_over_every_sample():
    rng = np.random.default_rng(3)
    chances, values = rng.integers(100, 1000, 9) / 1000, rng.standard_normal(9)
    mean = sum(weight * (values / chances)[chosen].sum() for weight, _, chosen in every_sample(chances))
    assert mean == pytest.approx(values.sum(), abs=1e-9)
