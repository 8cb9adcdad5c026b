"""Frequencies from labels and predictions, against SciPy and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from analysis.stats.prediction_powered import (
    COMMON,
    FEW,
    NONE,
    prediction_powered,
    rectified,
    score_interval,
    weights,
)


def world(rng, images=80, attributes=15):
    """Labels of every image and predictions of them."""
    frequency = rng.beta(0.6, 1.2, (2, attributes))
    labels = (rng.random((2, images, attributes)) < frequency[:, None]).astype(float)
    logit = 1.5 * (2 * labels - 1) + rng.normal(size=labels.shape) - 1
    return labels, 1 / (1 + np.exp(-logit))


def sample(rng, labels, n):
    """The labels of n images of each group and attribute, chosen at random."""
    order = rng.random(labels.shape).argsort(axis=1).argsort(axis=1)
    return np.where(order < n, labels, np.nan)


def test_the_weight_of_a_labelled_image_is_the_slope_of_ridge_regression_on_the_other_labels():
    """Least squares of NumPy on the other labels, with rows more that stand for the priors."""
    rng = np.random.default_rng(0)
    labels, predictions = world(rng, images=60, attributes=1)
    known = sample(rng, labels, 12)
    known[1, np.flatnonzero(~np.isnan(known[1, :, 0]))[9:]] = np.nan  # fewer of one group
    found = weights(known, predictions)[..., 0]
    variance = predictions[..., 0].var(axis=1, ddof=1)

    def slope(groups, without, prior, at, size):
        rows = [(p, y) for g in groups for p, y in centred(g, without)]
        x, y = np.array([*rows, (np.sqrt(prior * size), at * np.sqrt(prior * size))]).T
        return np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]

    def centred(g, without):
        keep = ~np.isnan(known[g, :, 0])
        if without[0] == g:
            keep[without[1]] = False
        both = np.column_stack([predictions[g, keep, 0], known[g, keep, 0]])
        return both - both.mean(axis=0)

    for g, i in np.argwhere(~np.isnan(known[..., 0])):
        both = slope((0, 1), (g, i), NONE, 0.0, variance.mean())
        assert found[g, i] == pytest.approx(slope((g,), (g, i), COMMON, both, variance[g]), abs=1e-10)
    for g in (0, 1):
        there = ~np.isnan(known[g, :, 0])
        np.testing.assert_allclose(found[g, ~there], found[g, there].mean(), atol=1e-12)


def test_every_sample_of_labels_averages_to_the_truth_though_weights_are_fitted_to_them():
    """By enumeration of all samples; with one weight fitted to the labels that it corrects, the mean is another."""
    labels = np.array(
        [[[1.0], [0.0], [0.0], [1.0], [0.0], [0.0], [1.0]], [[0.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]]]
    )
    predictions = np.array([[0.9, 0.1, 0.2, 0.3, 0.05, 0.1, 0.2], [0.2, 0.6, 0.9, 0.3, 0.5, 0.8, 0.9]])[
        ..., None
    ]
    estimates, plain = [], []
    for first, second in itertools.product(itertools.combinations(range(7), 5), repeat=2):
        known = np.full(labels.shape, np.nan)
        known[0, list(first)], known[1, list(second)] = labels[0, list(first)], labels[1, list(second)]
        result = prediction_powered(known, predictions)
        estimates.append(result.difference[0])
        one = np.full(labels.shape, weights(known, predictions)[known == known].mean())
        plain.append(prediction_powered(known, predictions, weight=one).difference[0])
    assert np.std(estimates) > 0.1
    assert np.mean(estimates) == pytest.approx(3 / 7 - 3 / 7, abs=1e-12)
    assert abs(np.mean(plain)) > 1e-3


def test_all_labels_leave_no_error_and_too_few_say_why():
    rng = np.random.default_rng(2)
    labels, predictions = world(rng)
    result = prediction_powered(labels, predictions)
    np.testing.assert_allclose(result.difference, labels[0].mean(axis=0) - labels[1].mean(axis=0), atol=1e-12)
    assert (result.error == 0).all()
    score = score_interval(result)
    truth = np.abs(labels[0].mean(axis=0) - labels[1].mean(axis=0)).mean()
    np.testing.assert_allclose([score.low, score.score, score.high, score.raw], truth, atol=1e-12)

    known = sample(rng, labels, 20)
    known[0, :, 3] = np.nan
    known[1, np.flatnonzero(~np.isnan(known[1, :, 4]))[FEW - 1 :], 4] = np.nan
    few = prediction_powered(known, predictions)
    assert (few.reason != "").nonzero()[0].tolist() == [3, 4]
    assert np.isnan(few.difference[[3, 4]]).all() and np.isfinite(np.delete(few.difference, [3, 4])).all()
    assert score_interval(few).n == 13


def test_shapes_that_differ_and_labels_without_prediction_are_refused():
    labels = np.ones((2, 6, 1))
    with pytest.raises(ValueError, match="shape \\(n_groups, n_images, n_attributes\\)"):
        prediction_powered(labels, labels[:, :3])
    with pytest.raises(ValueError, match="got NaN for some"):
        prediction_powered(labels, np.full((2, 6, 1), np.nan))


def test_rectified_values_average_to_the_estimate_for_any_number_of_groups():
    rng = np.random.default_rng(6)
    labels, predictions = (np.concatenate(both) for both in zip(world(rng), world(rng)))
    known = sample(rng, labels, 12)
    known[0, :, 2] = np.nan  # a group without labels of an attribute
    weight = weights(known, predictions)
    mean = rectified(known, predictions, weight).mean(axis=1)
    assert np.isnan(mean).nonzero() == (0, 2)
    for first, second in ((0, 1), (1, 3)):
        pair = prediction_powered(
            known[[first, second]], predictions[[first, second]], weight=weight[[first, second]]
        )
        np.testing.assert_allclose(mean[first] - mean[second], pair.difference, atol=1e-12)
    np.testing.assert_array_equal(rectified(labels, predictions, 0 * weight), labels)
