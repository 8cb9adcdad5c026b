"""Sign flips adjusted step by step, against Westfall and Young's algorithm written out, and against SciPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.step_down import step_down_test


def written_out(values):
    """Algorithm 4.1 of Westfall and Young 1993 over every flip, one column after the other."""
    known = np.nan_to_num(values)
    norm = np.sqrt((known**2).sum(axis=0))
    flips = np.array(
        [np.abs(np.array(signs) @ known) / norm for signs in product((1, -1), repeat=len(known))]
    )
    observed = np.abs(known.sum(axis=0)) / norm
    order = sorted(range(len(observed)), key=lambda column: -observed[column])
    found, least = np.empty(len(order)), 0.0
    for place, column in enumerate(order):
        largest = flips[:, order[place:]].max(axis=1)
        least = max(least, (largest >= observed[column] - 1e-9).mean())
        found[column] = least
    return found


def test_over_every_flip_it_is_the_algorithm_written_out():
    rng = np.random.default_rng(3)
    values = rng.normal(0.4, 1, (7, 6)) + rng.normal(0, 1, (7, 1))
    values[2, 1] = np.nan
    values[:, 4] = 2.0  # the same in every prompt
    found = step_down_test(values)
    np.testing.assert_allclose(found.p_adjusted, written_out(values))
    assert found.p_value[4] == 2 / 2**7
    for column in (0, 2, 3):
        test = stats.permutation_test(
            (values[:, column],), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert found.p_value[column] == pytest.approx(test.pvalue)
