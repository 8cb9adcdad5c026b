"""Cautions: each in a case made for it, and none where nothing is amiss."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.cautions import (
    ONE_REFERENCE,
    SKEWED,
    UNEQUAL,
    UNEQUAL_SIZES,
    gap_cautions,
    skewness,
    skewness_error,
    unequal_sides,
    word_cautions,
)
from analysis.stats.rare_changes import FEW_CARRY, effective_prompts


def test_skewness_by_scipy():
    values = np.random.default_rng(0).exponential(1, (24, 5))
    np.testing.assert_allclose(skewness(values), stats.skew(values, bias=False), rtol=1e-9)
    normal = np.random.default_rng(1).standard_normal((24, 20_000))
    assert skewness(normal).std() == pytest.approx(float(skewness_error(24)), rel=0.03)
    assert np.isnan(skewness(np.ones((5, 1)))[0]) and np.isnan(skewness_error(2))


def cautions(values):
    return gap_cautions(values, effective_prompts(values)).tolist()


def test_each_caution_in_its_case():
    normal = stats.norm.ppf((np.arange(24) + 0.5) / 24)[:, None]
    assert cautions(normal) == [""]
    changed = np.zeros((24, 1))
    changed[3] = 1.0
    assert cautions(changed) == [FEW_CARRY]
    skewed = stats.expon.ppf((np.arange(100) + 0.5) / 100)[:, None]
    assert cautions(skewed) == [SKEWED]
    assert cautions(np.full((4, 1), np.nan)) == [""] and cautions(np.empty((3, 0))) == []
    sizes = (np.array([3, 3, 2]), np.array([3, 3, 4]))
    told = word_cautions(np.array([3, 1, 3]), np.array([False, False, True]), sizes)
    assert told.tolist() == ["", ONE_REFERENCE, f"{UNEQUAL}; {UNEQUAL_SIZES}"]


def test_sides_are_unequal_by_the_distances_or_by_the_variances_of_their_words():
    spread, apart = (
        np.array([[1.0, 1.0, 1.0], [1.2, 1.2, 30.0]]),
        np.array([[0.2, 0.2, 0.2], [0.2, 0.5, 0.3]]),
    )
    assert unequal_sides(spread, (3, 3), apart).tolist() == [False, True, True]
    assert unequal_sides(spread[::-1], (3, 3), apart[::-1]).tolist() == [False, True, True]
    undefined = np.full((2, 1), np.nan)
    assert unequal_sides(undefined, (1, 1), undefined).tolist() == [False]
    assert unequal_sides(np.zeros((2, 1)), (3, 3), np.zeros((2, 1))).tolist() == [False]
