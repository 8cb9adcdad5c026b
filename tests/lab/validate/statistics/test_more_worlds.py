"""Groups held against the others, objects of a shared noise and shares of a distance in their worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.stats.group_swaps import group_swaps
from lab.validate.statistics import shared_noise, side_shares


def test_a_group_is_held_against_the_others_by_welch():
    """Permutations of SciPy's Student distribution with Welch's degrees of freedom; Monte Carlo error below 0.02."""
    rng = np.random.default_rng(8)
    values = rng.standard_normal((5, 8, 1))
    values[0] *= 3
    values[1] += 0.9
    found = group_swaps(values, draws=1999, seed=2)
    arranged = np.stack([values[:, :, 0], *(rng.permuted(values[:, :, 0], axis=0) for _ in range(1999))])
    everyone = arranged.size // len(arranged)
    least = arranged[0].var(ddof=0) * everyone / (everyone - 1)
    for group in range(5):
        sides = arranged[:, group], np.delete(arranged, group, axis=1).reshape(len(arranged), -1)
        errors, freedoms = [], []
        for side in sides:
            variance, size = side.var(axis=1, ddof=1), side.shape[1]
            errors.append(np.maximum(variance, least) / size)
            freedoms.append(np.where(variance > least, size - 1, everyone - 1))
        t = np.abs(sides[0].mean(axis=1) - sides[1].mean(axis=1)) / np.sqrt(errors[0] + errors[1])
        freedom = (errors[0] + errors[1]) ** 2 / (errors[0] ** 2 / freedoms[0] + errors[1] ** 2 / freedoms[1])
        tails = stats.t.sf(t, freedom)
        assert found.group_p_value[group, 0] == pytest.approx((tails <= tails[0]).mean(), abs=0.05)


def test_objects_of_a_shared_noise_differ_without_any_difference():
    table = shared_noise.shared_object_rejections(simulations=20, permutations=99, seed=3)
    rate = table.set_index(["world", "test"])["rate"]
    assert (
        rate[("1 seed, 0 %", shared_noise.TESTS[0])] <= 0.08
    )  # 400 objects: 5 % with a standard error of 1.1 %
    assert rate[("3 seeds, 30 %", shared_noise.TESTS[1])] >= 0.5


@pytest.mark.lab
def test_shares_of_a_distance_are_covered():
    table = side_shares.side_share_coverage(simulations=60, resamples=100, seed=4)
    assert (table["rate"] >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)).all()
