"""SSIM and Diff. Pix. against a plain loop and OpenCV."""

import cv2
import numpy as np
import pytest

from analysis.metrics.pixels import (
    PicturePair,
    diff_pix,
    filled_regions,
    grey,
    ssim_full_score,
    ssim_map,
    ssim_score,
)


def picture(seed, shape=(48, 40, 3), blur=3):
    """A smooth random colour picture."""
    from scipy.ndimage import gaussian_filter

    noise = gaussian_filter(np.random.default_rng(seed).normal(size=shape), (blur, blur, 0))
    return np.clip(128 + 60 * noise / noise.std(), 0, 255).astype(np.uint8)


def ssim_by_loop(a, b, window=7):
    """Mean over windows inside the picture, straight from the formula with sample variances."""
    a, b = a.astype(float), b.astype(float)
    c1, c2, values = (0.01 * 255) ** 2, (0.03 * 255) ** 2, []
    for i in range(a.shape[0] - window + 1):
        for j in range(a.shape[1] - window + 1):
            x, y = a[i : i + window, j : j + window].ravel(), b[i : i + window, j : j + window].ravel()
            cov = np.cov(x, y)
            top = (2 * x.mean() * y.mean() + c1) * (2 * cov[0, 1] + c2)
            values.append(top / ((x.mean() ** 2 + y.mean() ** 2 + c1) * (cov[0, 0] + cov[1, 1] + c2)))
    return np.mean(values)


def test_ssim_is_the_formula():
    a = picture(0)
    pair = PicturePair(grey(a), grey((0.6 * a + 0.4 * picture(100)).astype(np.uint8)))
    assert ssim_score(pair).value == pytest.approx(ssim_by_loop(pair.first, pair.second), abs=1e-12)
    assert pair.similarities.shape == pair.difference.shape == a.shape[:2]
    assert ssim_full_score(pair).value == pytest.approx(pair.similarities.mean())


def test_black_against_white_is_undefined_not_zero():
    black, white = np.zeros((16, 16), np.uint8), np.full((16, 16), 255, np.uint8)
    result = diff_pix(PicturePair(black, white).difference)
    assert np.isnan(result.value)
    assert "threshold" in result.reason


def contours_by_opencv(mask, min_area):
    found = cv2.findContours(mask.astype(np.uint8) * 255, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    canvas = np.zeros(mask.shape, np.uint8)
    for contour in found[0] if len(found) == 2 else found[1]:
        if cv2.contourArea(contour) > min_area:
            cv2.drawContours(canvas, [contour], 0, 255, -1)
    return canvas > 0


@pytest.mark.parametrize("seed", range(2))
def test_diff_pix_is_the_recipe_of_opencv(seed):
    a, other = picture(seed, (64, 64, 3)), picture(seed + 50, (64, 64, 3))
    b = a.copy()
    b[10:40, 15:45] = other[10:40, 15:45]
    eight_bits = PicturePair(grey(a), grey(b)).difference
    _, mask = cv2.threshold(eight_bits, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    result = diff_pix(eight_bits)
    expected = 100 * contours_by_opencv(mask > 0, 40).mean()
    assert result.value == pytest.approx(expected, abs=1e-12)
    assert 0 < result.value < 100


def test_a_region_that_touches_the_border_and_an_island_in_a_hole():
    mask = np.zeros((30, 30), bool)
    mask[:12, :12] = True
    mask[3:10, 3:10] = False
    mask[5:7, 5:7] = True  # an island inside the hole
    mask[20:, 20:29] = True
    mask[21:, 23:26] = False  # open to the border: no hole
    regions = filled_regions(mask, 40)
    assert regions[:12, :12].all()
    assert not regions[20:].any()  # two legs of 3 pixels enclose 18 each, the corners 1/2 each: 37


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (np.zeros((8, 8), np.uint8), np.zeros((8, 9), np.uint8), "expected two of one size, got 8x8 and 9x8"),
        (np.zeros((6, 9), np.uint8), np.zeros((6, 9), np.uint8), "at least 7x7"),
        (np.zeros((8, 8)), np.zeros((8, 8)), "expected uint8"),
    ],
)
def test_bad_pictures_are_named(a, b, text):
    with pytest.raises(ValueError, match=text):
        ssim_map(grey(a), grey(b))
