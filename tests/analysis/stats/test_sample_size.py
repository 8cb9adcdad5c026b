"""The search for a number of prompts, compared with trying one number after another."""

import numpy as np
import pytest

from analysis.stats.sample_size import FEWEST_PROMPTS, smallest_number


@pytest.mark.parametrize("needed", [1, 2, 3, 100, 1024, 1025])
def test_it_is_the_first_number_at_which_the_power_is_reached(needed):
    def power_at(n):
        return float(n >= needed)

    one_by_one = next(n for n in range(FEWEST_PROMPTS, 2000) if power_at(n) >= 0.5)
    assert smallest_number(power_at, 0.5) == one_by_one


def test_a_coarser_search_errs_by_its_precision_and_never_below():
    for needed in np.random.default_rng(0).integers(2, 100_000, 50):
        number = smallest_number(lambda n: float(n >= needed), 0.5, precision=0.01)  # noqa: B023
        assert needed <= number <= max(needed + 1, 1.0201 * needed)


def test_no_number_where_the_power_is_never_reached():
    asked = []
    assert smallest_number(lambda n: asked.append(n) or 0.2, 0.8) is None
    assert asked[:3] == [2, 4, 8] and len(asked) < 30
