"""Noise floors, compared with enumeration written out here and against SciPy."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats import null_distribution
from analysis.stats.noise_floor import mad_floor, paired_floor
from analysis.stats.noise_floor_result import whole_counts
from analysis.stats.null_distribution import distance_from_uniform, mean_of_independent


def all_results(n, categories):
    """Counts for every way to deal n images one after the other, shape (categories^n, categories)."""
    return np.array([np.bincount(way, minlength=categories) for way in product(range(categories), repeat=n)])


@pytest.mark.parametrize("counts", [(4, 1, 0), (2, 2, 1)])
def test_distance_from_uniform_is_that_of_every_result(counts):
    distance = np.abs(all_results(5, 3) / 5 - 1 / 3).sum(axis=1)
    own = mad_floor(counts)
    assert 3 * own.floor == pytest.approx(distance.mean(), abs=1e-12)
    assert own.p_value == pytest.approx((distance >= 3 * own.value - 1e-9).mean(), abs=1e-12)


def test_the_long_convolution_is_the_direct_one_and_unlike_grids_are_drawn_with_the_exact_floor(monkeypatch):
    parts = {distance_from_uniform(n, 3): 30 for n in (20, 40)}
    direct = mean_of_independent(parts)
    monkeypatch.setattr(null_distribution, "LARGEST_DIRECT", 0)
    fast = mean_of_independent(parts)
    assert fast.denominator == direct.denominator
    assert np.abs(fast.probability - direct.probability).max() < 1e-14
    monkeypatch.setattr(null_distribution, "LARGEST_REACH", 10)
    drawn = mad_floor([[10, 5, 5]] * 30 + [[20, 10, 10]] * 30, draws=999)
    assert drawn.floor == pytest.approx(direct.mean / 3, rel=1e-12)


@pytest.mark.parametrize("k", [0, 5, 7])
def test_gender_mad_of_nine_images_is_the_binomial_test(k):
    own = mad_floor([k, 9 - k])
    assert own.floor == pytest.approx(35 / 256, abs=1e-12)
    assert own.value == pytest.approx(abs(k / 9 - 0.5))
    assert own.p_value == pytest.approx(stats.binomtest(k, 9, 0.5).pvalue, abs=1e-12)


def test_mean_mad_over_prompts_is_that_of_every_pair_of_results():
    one = np.abs(np.arange(4) / 3 - 0.5)
    weight = stats.binom.pmf(np.arange(4), 3, 0.5)
    means, weights = np.add.outer(one, one).ravel() / 2, np.outer(weight, weight).ravel()
    own = mad_floor([[3, 0], [2, 1]])
    assert own.floor == pytest.approx(weights @ means)
    assert own.p_value == pytest.approx(weights[means >= own.value - 1e-12].sum())
    assert own.n == 6


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
    assert paired_floor(np.column_stack([rows, np.full(3, np.nan)])).undefined == 1


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (lambda: mad_floor([0, 0]), "no images"),
        (lambda: mad_floor([9]), "one category only"),
        (lambda: mad_floor(np.zeros((0, 2), int)), "no images"),
        (lambda: paired_floor(np.zeros((0, 2))), "no images"),
    ],
)
def test_undefined_is_nan_with_a_reason(own, reason):
    own = own()
    assert own.reason == reason
    assert all(math.isnan(x) for x in (own.value, own.floor, own.excess, own.p_value))


def test_prompts_without_images_are_left_out_and_counted():
    own = mad_floor([[5, 4], [0, 0]])
    assert own.undefined == 1 and own.value == mad_floor([5, 4]).value


@pytest.mark.parametrize(
    "call",
    [
        lambda: mad_floor([5, 4], draws=0),
        lambda: mad_floor([0.5, 1]),
        lambda: paired_floor([1.0, 2.0]),
        lambda: whole_counts([1, -2]),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError, match="expected"):
        call()
