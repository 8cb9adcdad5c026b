"""Tipping points: errors that they name make the difference, and their bounds hold as often as they say."""

import numpy as np

from analysis.stats.detector_correction import Labels, corrected_presence
from analysis.stats.tipping_points import tipping_points


def test_errors_at_the_tipping_point_make_the_difference():
    """One frequency on both sides, and the detector that is named: its detections differ as they were seen to."""
    first, second = np.array([0.12, 0.4]), np.array([0.3, 0.1])
    result = tipping_points(first, second, second - first, second - first)
    more, less = np.maximum(first, second), np.minimum(first, second)
    sees = 0.9 / np.array([1.0, 1.0]), 0.9 / result.sensitivity  # of the side with more, and of the other
    frequency = more / sees[0]
    np.testing.assert_allclose(frequency * sees[1], less)
    np.testing.assert_allclose(less + result.false * (1 - less), more)
    np.testing.assert_allclose(result.sensitivity_bound, result.sensitivity)
    swapped = tipping_points(second, first, first - second, first - second)
    np.testing.assert_allclose(swapped.sensitivity, result.sensitivity)


def test_nothing_detected_has_no_tipping_point():
    result = tipping_points([0.0], [0.0], [-0.1], [0.1])
    assert np.isnan(result.sensitivity[0]) and np.isnan(result.false[0])


def test_bounds_lie_below_the_truth_as_often_as_they_say():
    """Sensitivities .9 and .6 of one frequency: the bound is at most 1.5 in 97.5 %, less 3 errors of 1,000."""
    rng, held = np.random.default_rng(0), []
    for _ in range(25):
        prompt = rng.beta(2, 3, (40, 1, 1))  # prompts differ
        x = rng.binomial(3, prompt * np.array([0.6, 0.9])[None, :, None], (40, 2, 40)).astype(float)
        n, none = np.full((40, 2), 3), np.zeros(x.shape)
        plain = corrected_presence(x, n, Labels(x, none, none, 3 - x))
        ends = plain.difference_low, plain.difference_high
        held.append(tipping_points(*(x.sum(axis=0) / 120), *ends).sensitivity_bound <= 1.5)
    assert np.mean(held) >= 0.975 - 3 * np.sqrt(0.975 * 0.025 / 1000)
