"""Masks against torch's own interpolation, and the maps that have no mask."""

import numpy as np
import pytest
import torch

from hooks import HookError
from hooks.attention.maps import THETA, mask, normalise, resize


def heat(h=5, w=7, seed=0):
    return np.random.default_rng(seed).random((h, w), dtype=np.float32)


@pytest.mark.parametrize("size", [(40, 56), (13, 9), (5, 7), (3, 2)])
def test_resize_is_torchs_bicubic(size):
    expected = torch.nn.functional.interpolate(torch.tensor(heat())[None, None], size=size, mode="bicubic")[
        0, 0
    ]
    np.testing.assert_allclose(resize(heat(), size), expected, atol=1e-5)


def test_mask_is_strictly_above_theta_of_the_stretched_map():
    found, peak = mask(heat(), (40, 56))
    big = torch.nn.functional.interpolate(torch.tensor(heat())[None, None], size=(40, 56), mode="bicubic")[
        0, 0
    ]
    expected = ((big - big.min()) / (big.max() - big.min()) > THETA).numpy()
    assert found.dtype == bool
    assert (found != expected).mean() < 0.001, "only rounding at the threshold may differ"
    assert peak == heat().max()
    assert 0 < found.mean() < 1


def test_threshold_is_strict():
    values = np.array([[0.0, 0.5], [0.5, 1.0]])
    assert mask(values, 2, theta=0.5)[0].tolist() == [[False, False], [False, True]]
    assert mask(values, 2, theta=0.0)[0].tolist() == [[False, True], [True, True]]
    assert not mask(values, 2, theta=1.0)[0].any()


def test_min_max_ignores_scale_but_the_peak_does_not():
    found, peak = mask(heat(), 32)
    faint, faint_peak = mask(heat() / 1024, 32)
    assert np.array_equal(found, faint), "a word that was not drawn has a mask all the same"
    assert faint_peak == pytest.approx(peak / 1024)


@pytest.mark.parametrize("value", [0.0, 0.3, 7.0])
def test_a_constant_map_has_no_min_max_and_an_empty_mask(value):
    constant = np.full((4, 4), value, dtype=np.float32)
    assert np.isnan(normalise(constant)).all()
    found, peak = mask(constant, 30)
    assert not found.any()
    assert peak == np.float32(value)


def test_mask_refuses_what_is_not_one_map():
    with pytest.raises(HookError, match=r"shape \(h, w\), but got shape \(2, 3, 3\)"):
        mask(np.zeros((2, 3, 3)), 8)
    with pytest.raises(HookError, match="theta"):
        mask(heat(), 8, theta=35)


def test_a_map_that_is_not_finite_has_an_empty_mask():
    values = heat(8, 8)
    values[2, 3] = np.inf
    with np.errstate(invalid="ignore"):
        assert not mask(values, 8)[0].any()
