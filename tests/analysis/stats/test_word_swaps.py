"""Words that change places within units: against SciPy, sign flips, and units of different size."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.noise_floor import paired_floor
from analysis.stats.sign_flips import sign_flip_test
from analysis.stats.word_swaps import word_swaps


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
    assert got.excess == pytest.approx(scores[0] - np.mean(scores))
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
