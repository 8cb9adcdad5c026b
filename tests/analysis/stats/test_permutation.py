"""Sign flips against SciPy, enumeration and plain loops."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.permutation import (
    adjusted_together,
    flip_columns,
    paired_floor,
    sign_flip_test,
    step_down_test,
)


def test_sign_flips_are_those_of_scipy():
    rows = np.random.default_rng(0).normal(0.4, 1, (8, 3)).round(1)

    def score(x, axis):
        return np.abs(x.mean(axis=axis)).mean(axis=-1) if axis == 0 else np.abs(x.mean(axis=axis))

    own = paired_floor(rows)
    signs = np.array(list(product((1, -1), repeat=8)))
    null = np.abs(signs @ rows / 8).mean(axis=1)
    assert own.value == pytest.approx(np.abs(rows.mean(axis=0)).mean())
    assert own.floor == pytest.approx(null.mean())
    assert own.p_value == pytest.approx((null >= own.value - 1e-9).mean())
    alone = paired_floor(rows[:, :1])
    known = stats.permutation_test(
        (rows[:, 0],), score, permutation_type="samples", vectorized=True, axis=-1, alternative="greater"
    )
    assert alone.p_value == pytest.approx(known.pvalue)


def test_a_missing_attribute_of_a_prompt_is_left_out_there_alone():
    rows = np.array([[1.0, 0.5], [1.0, np.nan], [1.0, -0.5]])
    assert paired_floor(rows).value == pytest.approx(0.5)
    assert paired_floor(np.column_stack([rows, np.full(3, np.nan)])).value == pytest.approx(0.5)


def test_nothing_is_nan_with_a_reason_and_another_shape_refused():
    own = paired_floor(np.zeros((0, 2)))
    assert own.reason == "no images" and np.isnan([own.value, own.floor, own.p_value]).all()
    with pytest.raises(ValueError, match="expected"):
        paired_floor([1.0, 2.0])


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


def max_t_by_loop(values, flips, extra):
    """Adjusted p-values with Student's t, in exact fractions where it counts: no ties are lost."""

    def statistic(x):
        total, squares = sum(x), sum(v * v for v in x)
        return total * total / squares if squares else Fraction(0)

    fractions = [[Fraction(float(v)) for v in column] for column in values.T]
    observed = [statistic(column) for column in fractions]
    largest = [max(statistic([s * v for s, v in zip(signs, x)]) for x in fractions) for signs in flips]
    return [(sum(m >= o for m in largest) + extra) / (len(flips) + extra) for o in observed]


def test_max_t_by_a_plain_loop_exact_with_ties():
    values = np.random.default_rng(0).integers(-3, 5, (6, 4)) / 8.0
    values[:, 3] = values[:, 0]  # a column twice
    flips, result = list(product([1, -1], repeat=6)), sign_flip_test(values)
    np.testing.assert_allclose(result.p_adjusted, max_t_by_loop(values, flips, 0), rtol=0, atol=0)
    alone = [max_t_by_loop(values[:, [c]], flips, 0)[0] for c in range(4)]
    np.testing.assert_allclose(result.p_value, alone, rtol=0, atol=0)


def test_max_t_by_a_plain_loop_drawn():
    values = np.random.default_rng(1).normal(0.5, [1, 10, 0.1], (12, 3))
    result = sign_flip_test(values, permutations=300, seed=9)
    rng = np.random.default_rng([9, 2])
    drawn = np.concatenate(
        [rng.integers(0, 2, (256, 12), dtype=np.int8), rng.integers(0, 2, (44, 12), dtype=np.int8)]
    )
    flips = (2 * drawn.astype(int) - 1).tolist()
    np.testing.assert_allclose(result.p_adjusted, max_t_by_loop(values, flips, 1), rtol=1e-12)
    alone = [max_t_by_loop(values[:, [c]], flips, 1)[0] for c in range(3)]
    np.testing.assert_allclose(result.p_value, alone, rtol=1e-12)


@pytest.mark.parametrize("rows", [6, 30])  # every flip, and flips that are drawn
def test_a_family_tested_some_columns_at_a_time_is_adjusted_as_a_whole(rows):
    values = np.random.default_rng(3).normal(0.3, 1, (rows, 9))
    values[:, 4] = 0.0  # undefined: nothing differs in any prompt
    values[2, 7] = np.nan
    options = {"permutations": 400, "seed": 5}
    whole = sign_flip_test(values, **options)
    shares = [flip_columns(values[:, cut], **options) for cut in (slice(0, 4), slice(4, 5), slice(5, 9))]
    joined = adjusted_together(shares)
    for name in ("p_value", "p_adjusted"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    assert np.isnan(whole.p_adjusted).nonzero()[0].tolist() == [4]
