"""Proportions against SciPy, statsmodels, and what enumeration and simulation give."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats import proportions


def test_the_stratified_test_counts_every_exchange_within_strata():
    """Groups of two strata are exchanged in all ways; sums as rare as the one seen count."""
    groups = [([1, 1, 1, 0], [0, 0, 1]), ([1, 0, 1], [0, 0])]
    sums = []
    orders = [np.array([*first, *second]) for first, second in groups]
    choices = [[[*one] for one in product((0, 1), repeat=len(order)) if sum(one) == len(groups[k][0])]
               for k, order in enumerate(orders)]  # fmt: skip
    for chosen in product(*choices):
        sums.append(sum(int(order[np.array(mask) == 1].sum()) for order, mask in zip(orders, chosen)))
    values, counts = np.unique(sums, return_counts=True)
    seen = sum(sum(first) for first, _ in groups)
    likely = counts[values == seen][0]
    expected = counts[counts <= likely].sum() / counts.sum()
    assert proportions.stratified_exact_test([3, 2], [4, 3], [1, 0], [3, 2]) == pytest.approx(
        expected, abs=1e-12
    )


@pytest.mark.parametrize(("share", "n", "reference"), [(0.5, 10, 0.5), (0.2, 5, 0.35)])
def test_the_squared_distance_is_unbiased_and_its_variance_exact(share, n, reference):
    x = np.arange(n + 1)
    likely = stats.binom.pmf(x, n, share)
    value, _ = proportions.squared_distance(x, n, reference)
    assert likely @ value == pytest.approx((share - reference) ** 2, abs=1e-12)
    spread = share * (1 - share)
    exact = 4 * (share - reference) ** 2 * spread / n + 2 * spread**2 / (n * (n - 1))
    assert likely @ (value - likely @ value) ** 2 == pytest.approx(exact, abs=1e-12)
