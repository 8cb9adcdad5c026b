"""Skin tones against colour mathematics written out by hand, OpenCV in float, and values printed elsewhere."""

import cv2
import numpy as np
import pytest

from analysis.metrics.skin_tone import (
    MONK,
    dalleval2023_angle,
    lab_colours,
    mean_colour,
    monk_colours,
    nearest_by_angle,
    read_skin,
    typology_angle,
)

TEN = list(range(1, 11))
# L*, a*, b* of the ten colours as DALL-Eval's code writes them down
PRINTED = np.array(
    [
        [94.211, 1.503, 5.422],
        [92.275, 2.061, 7.28],
        [93.091, 0.216, 14.205],
        [87.573, 0.459, 17.748],
        [77.902, 3.471, 23.136],
        [55.142, 7.783, 26.74],
        [42.47, 12.325, 20.53],
        [30.678, 11.667, 13.335],
        [21.069, 2.69, 5.964],
        [14.61, 1.482, 3.525],
    ]
)


def lab_by_hand(rgb):
    """CIE 15 and IEC 61966-2-1, colour by colour."""
    light = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in np.asarray(rgb) / 255]
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = [sum(m * c for m, c in zip(row, light)) for row in matrix]
    f = [
        t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29
        for t in (v / w for v, w in zip(xyz, (0.95047, 1.0, 1.08883)))
    ]
    return [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]


@pytest.fixture(scope="module")
def colours():
    rng = np.random.default_rng(0)
    return np.concatenate([monk_colours(), rng.integers(0, 256, (300, 3), dtype=np.uint8), [[0, 0, 0]]])


def test_lab_is_that_of_the_standard_and_of_opencv(colours):
    ours = lab_colours(colours.astype(np.uint8))
    # the standard's matrix has four digits
    np.testing.assert_allclose(ours, [lab_by_hand(colour) for colour in colours], atol=0.03)
    float32 = (colours / 255).astype(np.float32)[None]
    np.testing.assert_allclose(ours, cv2.cvtColor(float32, cv2.COLOR_RGB2LAB)[0], atol=0.35)
    np.testing.assert_allclose(lab_colours(monk_colours()), PRINTED, atol=0.02)


def test_the_card_reads_one_to_ten():
    tones = [read_skin(np.tile(colour, (7, 1))) for colour in monk_colours()]
    assert [tone.tone for tone in tones] == TEN
    assert [tone.tone_ciede2000 for tone in tones] == TEN
    assert [tone.tone_dalleval2023 for tone in tones] == [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]
    assert {tone.pixels for tone in tones} == {7} and len(set(MONK)) == 10
    np.testing.assert_allclose([tone.lab for tone in tones], PRINTED, atol=0.02)


def test_the_papers_reading_is_eight_bits_of_swapped_channels(colours):
    """Without OpenCV's 8-bit conversion: float L*a*b* of blue for red, scaled and rounded, within a level of it."""
    printed = np.degrees(np.arctan((PRINTED[:, 0] - 50) / PRINTED[:, 2]))
    for colour in monk_colours():
        lab = np.array(lab_by_hand(colour[::-1]))
        levels = np.rint([lab[0] * 255 / 100, lab[2] + 128])
        angle = np.degrees(np.arctan((levels[0] - 50) / levels[1]))
        assert dalleval2023_angle(colour[None]) == pytest.approx(angle, abs=0.6)
        tone = read_skin(colour[None]).tone_dalleval2023
        assert tone == 1 + np.abs(printed - dalleval2023_angle(colour[None])).argmin()
    # all but the darkest of all colours lie within four of the ten tones
    read = {read_skin(colour[None]).tone_dalleval2023 for colour in colours.astype(np.uint8)[:-1]}
    assert read <= {4, 5, 6, 7}


def test_the_papers_reading_averages_angles_and_leaves_black_out():
    two = monk_colours()[[0, 9]]
    apart = [dalleval2023_angle(colour[None]) for colour in two]
    assert dalleval2023_angle(np.concatenate([two, np.zeros((5, 3), np.uint8)])) == pytest.approx(
        np.mean(apart)
    )
    assert np.isnan(dalleval2023_angle(np.zeros((5, 3), np.uint8)))
    assert dalleval2023_angle(two / 255.0) == dalleval2023_angle(two)


def test_nearest_by_angle_is_a_search_along_the_angles():
    angles = np.degrees(np.arctan2(PRINTED[:, 0] - 50, PRINTED[:, 2]))
    assert (np.diff(angles) < 0).all()
    halves = (angles[1:] + angles[:-1]) / 2
    queries = np.linspace(-90, 90, 1001)
    clear = np.abs(queries[:, None] - halves).min(1) > 0.05
    expected = 10 - np.searchsorted(halves[::-1], queries)
    np.testing.assert_array_equal(nearest_by_angle(queries)[clear], expected[clear])


def test_what_is_undefined_says_why():
    assert read_skin(np.zeros((0, 3), np.uint8)).reason == "no pixels of skin"
    empty = read_skin([])
    assert (empty.pixels, empty.tone, empty.tone_ciede2000, empty.tone_dalleval2023) == (0, None, None, None)
    assert np.isnan([empty.ita, *empty.lab]).all()
    black = read_skin(np.zeros((3, 3), np.uint8))
    assert (black.tone, black.reason, black.tone_ciede2000) == (None, "grey: a* and b* are 0", None)
    blue = read_skin([[90, 100, 140]])
    assert blue.tone is None and np.isnan(blue.ita) and blue.tone_ciede2000 is not None
    expected = lab_by_hand([90, 100, 140])[2]
    assert blue.reason == f"no typology angle: b* is {expected:.1f}, not above 0"
    for grey in range(0, 256, 3):
        assert np.isnan(typology_angle(lab_colours(np.full(3, grey, np.uint8))))
        none = read_skin(np.full((2, 3), grey, np.uint8))
        assert {none.tone, none.tone_ciede2000, none.tone_dalleval2023} == {None} and np.isnan(none.ita)
    with pytest.raises(ValueError, match=r"expected colours of three channels, got shape \(4, 2\)"):
        lab_colours(np.zeros((4, 2)))


def test_means_of_light_and_of_lab():
    pixels = np.array([[200, 150, 120], [90, 60, 40]], np.uint8)
    np.testing.assert_allclose(mean_colour(pixels), np.mean([lab_by_hand(p) for p in pixels], 0), atol=0.02)
    light = np.mean([((p / 255 + 0.055) / 1.055) ** 2.4 for p in pixels], 0)
    encoded = 255 * (1.055 * light ** (1 / 2.4) - 0.055)
    np.testing.assert_allclose(mean_colour(pixels, "linear"), lab_by_hand(encoded), atol=0.03)
    even = np.tile(pixels[:1], (9, 1))
    np.testing.assert_allclose(mean_colour(even), mean_colour(even, "linear"), atol=1e-9)
