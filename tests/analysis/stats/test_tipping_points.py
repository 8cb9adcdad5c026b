"""What errors of a detector would explain a difference."""

import numpy as np

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
