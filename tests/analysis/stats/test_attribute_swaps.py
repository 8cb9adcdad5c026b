"""Whole images that change places: by a plain loop, Fisher's test, and every swap of a shared noise."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.attribute_swaps import CONSTANT, attribute_swaps
from analysis.stats.permutation import NO_IMAGES


def distance(first, second):
    """Mean absolute difference of the frequencies of attributes; arrays of shape (n_attributes, n_images)."""
    with np.errstate(invalid="ignore"):
        return np.nanmean(np.abs([np.nanmean(a) - np.nanmean(b) for a, b in zip(first, second)]))


def test_one_prompt_by_a_loop_over_all_swaps():
    rng = np.random.default_rng(1)
    pair = rng.integers(0, 2, (2, 3, 6)).astype(float)
    pair[rng.random(pair.shape) < 0.15] = np.nan
    _, (one,) = attribute_swaps(*pair[:, None])
    every = []
    for swaps in product((False, True), repeat=6):
        every.append(distance(np.where(swaps, pair[1], pair[0]), np.where(swaps, pair[0], pair[1])))
    assert one.value == pytest.approx(distance(*pair))
    assert one.floor == pytest.approx(np.mean(every)) and one.sd == pytest.approx(np.std(every))
    assert one.p_value == pytest.approx(np.mean(np.array(every) >= one.value - 1e-9))


def test_unpaired_images_of_one_attribute_are_fishers_test():
    first, second = np.array([[[1, 1, 1, 1, 0, 1, 1, 0]]]), np.array([[[0, 0, 1, 0, 0, 0, 1, 0]]])
    whole, (one,) = attribute_swaps(first, second, paired=False, draws=40_000)
    table = [[first.sum(), second.sum()], [8 - first.sum(), 8 - second.sum()]]
    assert one.p_value == pytest.approx(stats.fisher_exact(table).pvalue, abs=0.01)
    assert whole.value == one.value and whole.p_value == pytest.approx(one.p_value, abs=0.01)


def test_what_cannot_be_told_has_a_reason():
    nothing = np.full((1, 2, 4), np.nan)
    whole, (one,) = attribute_swaps(nothing, nothing)
    assert whole.reason == one.reason == NO_IMAGES and np.isnan(one.p_value)
    whole, (one,) = attribute_swaps(np.ones((1, 2, 4)), np.ones((1, 2, 4)))
    assert whole.reason == one.reason == CONSTANT and one.value == 0
    mixed = np.concatenate([nothing, np.eye(4)[None, :2]])
    whole, each = attribute_swaps(mixed, 1 - mixed)
    assert whole.undefined == 1 and each[0].reason == NO_IMAGES and whole.value == each[1].value
    with pytest.raises(ValueError, match="expected two arrays of shape"):
        attribute_swaps(np.ones((1, 2, 4)), np.ones((1, 3, 4)))
