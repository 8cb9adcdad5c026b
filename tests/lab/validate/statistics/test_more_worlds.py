"""Shares of a distance in their worlds."""

import numpy as np
import pytest

from lab.validate.statistics import side_shares


@pytest.mark.lab
def test_shares_of_a_distance_are_covered():
    table = side_shares.side_share_coverage(simulations=60, resamples=100, seed=4)
    assert (table["rate"] >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)).all()
