"""Shares behind a reader that errs or leaves undecided: its likelihood, and what is undefined."""

import numpy as np
import pytest
from scipy import optimize, stats

from analysis.stats.detector_correction import NO_LABELS
from analysis.stats.reader_correction import BLIND, NO_IMAGES, corrected_shares


def test_the_matrix_method_where_labels_are_many():
    answers = np.array([[480, 450, 70]])
    labels = np.array([[[9000, 500, 500], [2000, 7000, 1000]]]) * 1000
    result = corrected_shares(answers, labels)
    q = labels[0] / labels[0].sum(axis=1, keepdims=True)
    by_scipy = optimize.minimize_scalar(
        lambda pi: -(answers[0] @ np.log(pi * q[0] + (1 - pi) * q[1])), bounds=(0, 1), method="bounded"
    ).x
    assert result.share[0] == pytest.approx(by_scipy, abs=0.005)
    # with two answers it is Rogan and Gladen's equation
    two = corrected_shares([[480, 520, 0]], np.array([[[900, 100, 0], [200, 800, 0]]]) * 1000)
    assert two.share[0] == pytest.approx((0.48 - 0.2) / (0.9 - 0.2), abs=0.005)


def test_interval_and_share_are_those_of_the_joint_likelihood():
    answers, labels = np.array([11.0, 14.0, 5.0]), np.array([[20.0, 4.0, 6.0], [3.0, 25.0, 2.0]])
    smoothed = labels + 1 / 3

    def log_likelihood(pi, free):
        q = np.exp(free.reshape(2, 2) @ np.array([[1.0, 0, 0], [0, 1.0, 0]]))
        q = q / q.sum(axis=1, keepdims=True)
        return answers @ np.log(pi * q[0] + (1 - pi) * q[1]) + (smoothed * np.log(q)).sum()

    start = np.log(smoothed[:, :2] / smoothed[:, 2:]).ravel()
    profile = [
        -optimize.minimize(lambda free, pi=pi: -log_likelihood(pi, free), start).fun
        for pi in np.linspace(0.01, 0.99, 99)
    ]
    shares = np.linspace(0.01, 0.99, 99)[
        2 * (max(profile) - np.array(profile)) <= stats.t.ppf(0.975, 29) ** 2
    ]
    result = corrected_shares(answers[None], labels[None])
    assert result.share[0] == pytest.approx(np.linspace(0.01, 0.99, 99)[np.argmax(profile)], abs=0.011)
    assert (result.low[0], result.high[0]) == pytest.approx((shares[0], shares[-1]), abs=0.011)


def test_what_is_undefined_says_why():
    labels = [
        [[5, 1, 0], [1, 5, 0]],
        [[0, 0, 0], [1, 5, 0]],
        [[30, 30, 0], [30, 30, 0]],
        [[5, 1, 0], [1, 5, 0]],
    ]
    result = corrected_shares([[3, 6, 0], [3, 6, 0], [3, 6, 0], [0, 0, 0]], labels)
    assert result.reason.tolist() == ["", NO_LABELS, BLIND, NO_IMAGES]
    assert np.isnan(result.share[1:]).all() and np.isfinite(result.share[0])
    assert (
        np.isnan(result.least[1:]).all()
        and len(corrected_shares(np.zeros((0, 3)), np.zeros((0, 2, 3))).share) == 0
    )
    with pytest.raises(ValueError, match="expected shapes"):
        corrected_shares([[3, 6]], [[[1, 2], [3, 4]]])
