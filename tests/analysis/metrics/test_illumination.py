"""Light set right: against matrices of the literature, and by what each estimate is right for."""

import numpy as np
import pytest

from analysis.metrics.illumination import (
    DAYLIGHT,
    ESTIMATES,
    adapted,
    estimated_white,
    white_of,
)
from analysis.metrics.skin_tone import lab_colours, monk_colours, nearest_by_angle, typology_angle
from probes.config.observation import LIGHTS, SkinTone

# Bradford adaptation from A to D65 as Lindbloom tabulates it, for whites of Y = 1
A_TO_D65 = np.array(
    [
        [0.8446965, -0.1179225, 0.3948108],
        [-0.1366303, 1.1041226, 0.1291718],
        [0.0798489, -0.1348999, 3.1924009],
    ]
)
MATRIX = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def light_of(srgb):
    srgb = np.asarray(srgb)
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def test_bradford_is_the_tabulated_matrix():
    white = white_of("A")
    colours = np.array([[0.4, 0.3, 0.1], [0.3, 0.25, 0.12], [0.35, 0.3, 0.2]])
    ours = light_of(adapted(colours, white / white[1])) @ MATRIX.T
    np.testing.assert_allclose(ours, light_of(colours) @ MATRIX.T @ A_TO_D65.T, atol=2e-4)


@pytest.mark.parametrize("light", LIGHTS)
def test_each_light_is_known_and_white_comes_out_white(light):
    white = white_of(light)
    seen = adapted(np.ones(3), DAYLIGHT, white)
    assert seen.max() == pytest.approx(1, abs=1e-4)  # as bright as it can be
    for adaptation in ("bradford", "channels"):
        np.testing.assert_allclose(adapted(seen, white, adaptation=adaptation), 1, atol=1e-3)


@pytest.mark.parametrize("light", ["A", "F11"])
def test_the_card_reads_one_to_ten_in_a_known_light(light):
    white = white_of(light)
    seen = np.rint(255 * adapted(monk_colours(), DAYLIGHT, white)).astype(np.uint8)
    read = nearest_by_angle(typology_angle(lab_colours(seen)))
    assert (read != np.arange(1, 11)).sum() >= 4  # as it is it does not
    right = adapted(seen, white)
    assert nearest_by_angle(typology_angle(lab_colours(right))).tolist() == list(range(1, 11))


def test_each_estimate_is_right_where_its_world_is_so():
    rng = np.random.default_rng(0)
    light = rng.uniform(0, 0.8, (500, 3))
    light *= 0.4 / light.mean(0)  # grey on average
    balanced = 1.055 * light.clip(0.004, 1) ** (1 / 2.4) - 0.055
    with_white = np.concatenate([balanced, np.ones((1, 3))])
    for method, image in (("grey-world", balanced), ("white-patch", with_white)):
        white = white_of("D50")
        estimate = estimated_white(adapted(image, DAYLIGHT, white, "channels"), method)
        np.testing.assert_allclose(estimate, white / white[1], atol=0.01)


def test_an_estimate_says_the_colour_of_light_and_not_how_much():
    image = np.full((4, 4, 3), (120, 90, 60), np.uint8)
    for method in ESTIMATES:  # of an even image all are the same
        grey = adapted(image, estimated_white(image, method), adaptation="channels")
        np.testing.assert_allclose(grey, grey[0, 0, 0], atol=1e-3)
        before, after = (light_of(x).reshape(-1, 3).mean(0) @ MATRIX[1] for x in (image / 255, grey))
        assert after == pytest.approx(before, rel=1e-3)
        assert estimated_white(np.zeros((2, 2, 3)), method) is None


@pytest.mark.parametrize("illuminant", ["D", "#00ffff", "#gggggg"])
def test_a_light_that_is_none_is_refused(illuminant):
    with pytest.raises(ValueError, match=r"expected A, B, C, .* or a colour with some red, green and blue"):
        SkinTone(illumination="given", illuminant=illuminant)
