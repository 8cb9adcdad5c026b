"""Swaps of words within units, and of contexts and seeds, against enumeration."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.crossed import crossed_mean
from analysis.stats.permutation import paired_floor, sign_flip_test
from analysis.stats.swaps import crossed_covariance, crossed_swaps, word_swaps


def counted(rng, units=8, attributes=4, images=5):
    counts = np.full((units, 2, attributes), images)
    return rng.binomial(counts, [[[0.5], [0.2]]]).astype(float), counts


@pytest.mark.parametrize("permutations", [10000, 200])
def test_equal_units_are_sign_flips_of_their_differences(permutations):
    sums, counts = counted(np.random.default_rng(0))
    got = word_swaps(sums, counts, permutations=permutations, seed=3)
    each = (sums[:, 0] - sums[:, 1]) / 5
    floor = paired_floor(each, draws=permutations - (permutations > 256), seed=3)
    flips = sign_flip_test(each, permutations=permutations, seed=3)
    assert (got.value, got.floor, got.p_value) == pytest.approx((floor.value, floor.floor, floor.p_value))
    np.testing.assert_allclose(got.p_values, flips.p_value, atol=1e-12)
    np.testing.assert_allclose(got.p_adjusted, flips.p_adjusted, atol=1e-12)


def test_units_of_different_size_are_weighted_by_their_images():
    """Every swap by hand: one attribute was not read in one context, and another by one label only."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 6, (6, 2, 3))
    counts[2, :, 0] = 0
    sums = rng.binomial(counts, 0.4).astype(float)
    got = word_swaps(sums, counts)
    scores, vectors = [], []
    for swap in product((False, True), repeat=6):
        side = np.array([[1, 0] if one else [0, 1] for one in swap])
        s, n = (np.take_along_axis(part, side[:, :, None], axis=1).sum(axis=0) for part in (sums, counts))
        vectors.append(s[0] / n[0] - s[1] / n[1])
        scores.append(np.abs(vectors[-1]).mean())
    assert got.value == pytest.approx(scores[0]) and got.floor == pytest.approx(np.mean(scores))
    assert got.floor == pytest.approx(np.mean(scores))
    assert got.p_value == pytest.approx(np.mean(np.array(scores) >= scores[0] - 1e-12))
    np.testing.assert_allclose(got.difference, vectors[0])
    np.testing.assert_allclose(
        got.p_values, (np.abs(vectors) >= np.abs(vectors[0]) - 1e-12).mean(axis=0), atol=1e-12
    )


def test_images_of_one_context_are_dealt_as_scipy_does():
    rng = np.random.default_rng(2)
    first, second = rng.random(20) < 0.7, rng.random(20) < 0.35
    sums = np.stack([first, second], axis=1)[..., None].astype(float)
    got = word_swaps(sums, np.ones_like(sums), dealt=True, permutations=20000)
    fisher = stats.fisher_exact([[first.sum(), 20 - first.sum()], [second.sum(), 20 - second.sum()]]).pvalue
    assert got.p_value == pytest.approx(fisher, abs=4 * np.sqrt(fisher / 20000))


@pytest.mark.parametrize(
    ("sums", "counts", "reason"),
    [
        (np.zeros((4, 2, 2)), np.ones((4, 2, 2)), "no difference in any prompt"),
        (np.zeros((4, 2, 2)), np.zeros((4, 2, 2)), "no images"),
        (np.array([[[1.0], [0.0]]]), np.ones((1, 2, 1)), "one prompt only"),
    ],
)
def test_what_is_not_defined_says_why(sums, counts, reason):
    got = word_swaps(sums, counts)
    assert got.reason == reason and set(got.reasons) == {reason}
    assert np.isnan(got.p_value) and np.isnan(got.p_values).all()


@pytest.mark.parametrize(("context", "seed"), [(0.0, 1.0), (1.0, 1.0)])
def test_without_a_difference_it_rejects_no_more_than_it_says(context, seed):
    rng = np.random.default_rng(0)
    rejected, adjusted = [], []
    for number in range(200):
        parts = rng.normal(size=(16, 6, 15))
        parts += context * rng.normal(size=(16, 1, 15)) + seed * rng.normal(size=(1, 6, 15))
        found = crossed_swaps(parts / 96, parts / 96, draws=400, seed=number)
        rejected.append(found.p_value <= 0.05)
        adjusted.append(found.p_adjusted.min() <= 0.05)
    assert np.sum(rejected) <= stats.binom.ppf(0.999, 200, 0.05)
    assert np.sum(adjusted) <= stats.binom.ppf(0.999, 200, 0.05)


def test_a_difference_at_every_context_and_seed_is_found():
    rng = np.random.default_rng(1)
    parts = (rng.normal(size=(16, 6, 15)) + 0.3 * rng.normal(size=(1, 6, 15)) + 1.0) / 96
    found = crossed_swaps(parts, parts, draws=2000)
    assert found.p_value < 0.05 and 1.5 * found.floor < np.abs(parts.sum(axis=(0, 1))).mean()
    assert found.smallest < 0.05


def test_the_covariance_has_the_variances_of_a_crossed_mean():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(8, 5, 3)) + rng.normal(size=(1, 5, 3)) + 0.5 * rng.normal(size=(8, 1, 3))
    covariance, freedom = crossed_covariance((values - values.mean(axis=(0, 1))) / 40)
    plain = crossed_mean(values)
    np.testing.assert_allclose(np.diag(covariance), plain.prompts + plain.seeds, rtol=1e-9)
    assert 4 <= freedom <= 11 and (np.linalg.eigvalsh(covariance) > -1e-12).all()
